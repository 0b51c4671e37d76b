// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/layout.hpp
/// Where everything lies: offsets in columns, so that the layout does not depend on the number of rows.
///
/// An activation of width C takes C columns on its axis; its address is base + columns * stride(axis). There are
/// two regions for each axis: *kept*, what backward reads, and *temporary*, placed first-fit over the time a
/// value or gradient is alive. Forward and backward use the temporary region one after the other.

#include <simplx/core/plan.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// Where values, gradients and parameters of each node lie, and how much each region needs.
template <int capacity>
struct Layout {
  Index value[capacity]{};               ///< columns; in the kept region if the plan keeps the value
  Index gradient[capacity]{};            ///< columns; kept region for probes and where the plan says `over_value`
  Columns saved[capacity]{};             ///< kept columns that forward leaves for backward
  Columns forward_workspace[capacity]{}; ///< temporary columns of a stack
  Columns backward_workspace[capacity]{};
  Index parameter[capacity]{}, constant[capacity]{}, packed[capacity]{};  ///< elements
  Index further[capacity]{};             ///< elements; gradients of a parameter's uses after the first
  int input[capacity]{}, output[capacity]{};                             ///< numbers, in order

  Columns kept{}, temporary{};
  Index parameters = 0, trained = 0, constants = 0, packed_elements = 0, further_elements = 0;
  int inputs = 0, outputs = 0;
};

namespace detail {

/// First-fit allocation of intervals; the list of holes stays short and sorted.
template <int capacity>
struct Holes {
  Index begin[capacity + 1]{}, end[capacity + 1]{};
  int count = 0;
  Index top = 0;

  constexpr void erase(int hole) {
    --count;
    for (int i = hole; i < count; ++i) begin[i] = begin[i + 1], end[i] = end[i + 1];
  }
  constexpr Index take(Index size) {
    for (int i = 0; i < count; ++i) {
      const bool last = end[i] == top;
      if (end[i] - begin[i] < size && !last) continue;
      const Index at = begin[i];
      begin[i] += size;
      if (begin[i] >= end[i]) {
        top = std::max(top, at + size);
        erase(i);
      }
      return at;
    }
    top += size;
    return top - size;
  }
  constexpr void give_back(Index at, Index size) {
    int i = 0;
    while (i < count && begin[i] < at) ++i;
    const bool joins_left = i > 0 && end[i - 1] == at, joins_right = i < count && begin[i] == at + size;
    if (joins_left && joins_right) {
      end[i - 1] = end[i];
      erase(i);
    } else if (joins_left) {
      end[i - 1] = at + size;
    } else if (joins_right) {
      begin[i] = at;
    } else {
      for (int k = count++; k > i; --k) begin[k] = begin[k - 1], end[k] = end[k - 1];
      begin[i] = at, end[i] = at + size;
    }
  }
};

/// Places what is alive from a time to a time, given in the order of the starts.
template <int capacity>
struct Placer {
  static constexpr int times = 2 * capacity + 4, slots = 3 * capacity;
  struct Tenant {
    Axis axis;
    Index at, size;
    int next;
  };
  Holes<slots> holes[axis_count]{};
  Tenant tenants[slots]{};
  int first_leaving[times]{};
  int count = 0, now = 0;

  constexpr Placer() {
    for (int& first : first_leaving) first = -1;
  }
  constexpr void advance(int time) {
    for (; now < time; ++now) {  // what was alive up to `now` leaves before the next time
      for (int t = first_leaving[now]; t >= 0; t = tenants[t].next) {
        holes[static_cast<int>(tenants[t].axis)].give_back(tenants[t].at, tenants[t].size);
      }
    }
  }
  constexpr Index place(int from, int until, Axis axis, Index size) {
    advance(from);
    const Index at = holes[static_cast<int>(axis)].take(size);
    until = std::min(std::max(until, from), times - 1);
    tenants[count] = {axis, at, size, first_leaving[until]};
    first_leaving[until] = count++;
    return at;
  }
  constexpr Columns place(int from, int until, const Columns& sizes) {
    Columns at;
    for (int i = 0; i < axis_count; ++i) {
      if (sizes.on[i]) at.on[i] = place(from, until, static_cast<Axis>(i), sizes.on[i]);
    }
    return at;
  }
  constexpr Columns top() const {
    Columns sizes;
    for (int i = 0; i < axis_count; ++i) sizes.on[i] = holes[i].top;
    return sizes;
  }
};

}  // namespace detail

/// Whether a node has a buffer of its own for its value, in the arena.
template <int capacity>
constexpr bool stores_value(const Info* info, const Fusion<capacity>& fusion, const Plan<capacity>& plan, int node) {
  if (!info[node].executes() || info[node].result) return false;
  if (fusion.group[node] >= 0) return fusion.group[node] == node || plan.kept[node];
  return fusion.finished_by[node] < 0 || plan.kept[node];
}

/// The same for its gradient, which the plan may also have put over the value.
template <int capacity>
constexpr bool stores_gradient(const Info* info, const Fusion<capacity>& fusion, const Plan<capacity>& plan,
                               int node) {
  if (!fusion.wanted[node] || !info[node].executes() || info[node].result) return false;
  if (fusion.group[node] >= 0 && fusion.group[node] != node) return false;
  return plan.shares[node] == node && !plan.over_value[node];
}
/// Whether the gradient of a node, or of those that share it, lies in the kept region.
template <int capacity>
constexpr bool keeps_gradient(const Info* info, const Plan<capacity>& plan, int home) {
  return info[home].observed || plan.over_value[home];
}

/// Columns of a value of that shape, or of its gradient: of the fixed axis elements, whole units of `alignment`.
constexpr Index room_of(const Shape& shape) {
  return shape.is_fixed() ? round_up(shape.columns(), alignment) : shape.cols;
}

/// Columns that the value of each node takes, and its gradient.
template <int capacity>
struct Rooms {
  Index value[capacity]{}, gradient[capacity]{};
};

/// Where all are numbers of one type.
template <int capacity>
constexpr Rooms<capacity> whole_rooms(const Info* info, int count) {
  Rooms<capacity> rooms;
  for (int i = 0; i < count; ++i) rooms.value[i] = rooms.gradient[i] = room_of(info[i].shape);
  return rooms;
}

namespace detail {

/// Numbers the inputs and outputs, and places in order what lies in flat buffers and in the kept region.
template <int capacity>
constexpr void number_and_keep(Layout<capacity>& layout, const Info* info, int count, const Fusion<capacity>& fusion,
                               const Plan<capacity>& plan, const Rooms<capacity>& rooms) {
  for (int i = 0; i < count; ++i) {
    const Info& node = info[i];
    layout.parameter[i] = layout.parameters;
    layout.constant[i] = layout.constants;
    layout.packed[i] = layout.packed_elements;
    layout.further[i] = layout.further_elements;
    layout.parameters += node.parameters;
    layout.trained += node.trained;
    layout.constants += node.constants;
    layout.packed_elements += node.packed;
    const bool used_again = node.kind == Kind::parameter && plan.uses[i] > 1;
    layout.further_elements += used_again ? (plan.uses[i] - 1) * node.parameters : node.further;
    layout.input[i] = layout.inputs;
    layout.inputs += node.kind == Kind::input || node.kind == Kind::indices;
    layout.output[i] = layout.outputs;
    layout.outputs += node.result;

    layout.saved[i] = layout.kept;
    layout.kept += node.saved;
    const Axis axis = node.shape.axis;
    if (stores_value<capacity>(info, fusion, plan, i) && plan.kept[i]) {
      layout.value[i] = layout.kept[axis];
      layout.kept[axis] += rooms.value[i];
      if (plan.over_value[i]) layout.gradient[i] = layout.value[i];
    }
    if (node.observed && fusion.wanted[i]) {
      layout.gradient[i] = layout.kept[axis];
      layout.kept[axis] += rooms.gradient[i];
    }
  }
}

/// Forward: a value lives from its step to the last step that reads it.
template <int capacity>
constexpr void place_values(Layout<capacity>& layout, const Info* info, int count, const Fusion<capacity>& fusion,
                            const Plan<capacity>& plan, const Rooms<capacity>& rooms) {
  int last_read[capacity]{};
  for (int i = 0; i < count; ++i) last_read[i] = fusion.step_of[i];
  for (int i = 0; i < count; ++i) {
    for (int a = 0; a < info[i].argument_count; ++a) {
      int& last = last_read[info[i].arguments[a]];
      last = std::max(last, fusion.step_of[i]);
    }
  }
  Placer<capacity> forward;
  for (int s = 0; s < fusion.steps; ++s) {
    const int node = fusion.order[s];
    layout.forward_workspace[node] = forward.place(s, s, info[node].workspace);
    if (plan.kept[node] || !stores_value<capacity>(info, fusion, plan, node)) continue;
    layout.value[node] = forward.place(s, last_read[node], info[node].shape.axis, rooms.value[node]);
  }
  layout.temporary = forward.top();
}

/// Backward: a gradient lives from its first write until all that share it have been read.
template <int capacity>
constexpr void place_gradients(Layout<capacity>& layout, const Info* info, int count, const Fusion<capacity>& fusion,
                               const Plan<capacity>& plan, const Rooms<capacity>& rooms) {
  int last_use[capacity]{};
  for (int i = 0; i < count; ++i) {
    int& last = last_use[plan.shares[i]];
    if (plan.read_time[i] != never) last = std::max(last, plan.read_time[i]);
  }
  int first_written_at[2 * capacity + 2]{}, next_written[capacity]{};
  for (int& first : first_written_at) first = -1;
  for (int i = count - 1; i >= 0; --i) {
    if (!stores_gradient<capacity>(info, fusion, plan, i) || info[i].observed) continue;
    int& first = first_written_at[plan.first_write[i]];
    next_written[i] = first;
    first = i;
  }
  Placer<capacity> backward;
  for (int time = 0; time < 2 * fusion.steps; ++time) {
    const int node = fusion.order[fusion.steps - 1 - time / 2];
    if (time % 2 == 0) layout.backward_workspace[node] = backward.place(time, time, info[node].workspace);
    for (int i = first_written_at[time]; i >= 0; i = next_written[i]) {
      layout.gradient[i] = backward.place(time, last_use[i], info[i].shape.axis, rooms.gradient[i]);
    }
  }
  layout.temporary.raise_to(backward.top());
}

}  // namespace detail

template <int capacity>
constexpr Layout<capacity> lay_out(const Info* info, int count, const Fusion<capacity>& fusion,
                                   const Plan<capacity>& plan, const Rooms<capacity>& rooms) {
  Layout<capacity> layout;
  detail::number_and_keep(layout, info, count, fusion, plan, rooms);
  detail::place_values(layout, info, count, fusion, plan, rooms);
  detail::place_gradients(layout, info, count, fusion, plan, rooms);
  return layout;
}

}  // namespace simplx
