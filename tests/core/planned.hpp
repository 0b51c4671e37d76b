// SPDX-License-Identifier: MIT
#pragma once

/// A plan of a random graph, executed: values and gradients lie where the plan says, in memory full of NaN, and what
/// the plan does not allow to be read is NaN.

#include "interpreter.hpp"

#include <simplx/core/layout.hpp>

#include <limits>
#include <stdexcept>

namespace test {

inline constexpr int capacity = 80;
inline constexpr double unset = std::numeric_limits<double>::quiet_NaN();

/// An execution that asked for what the plan does not have.
struct PlanFault : std::runtime_error {
  PlanFault(const char* what, int node) : runtime_error(what + (" %" + std::to_string(node))) {}
};

struct Planned {
  static constexpr double untouched = 12345;
  static constexpr std::size_t guard = 16;  ///< elements after each region, which stay as they are

  const TestGraph& graph;
  const std::vector<Info>& info;
  Fusion<capacity> fusion;
  Plan<capacity> plan;
  Layout<capacity> layout;
  std::vector<double> kept[axis_count], temporary[axis_count];
  std::vector<std::vector<double>> value, gradient, own, own_gradient;  // outside of the arena, by node

  explicit Planned(const TestGraph& g) : graph(g), info(g.info) {
    if (g.count() > capacity) throw PlanFault("too many nodes", g.count());
    fusion = fuse<capacity>(info.data(), g.count());
    plan = make_plan<capacity>(info.data(), g.count(), fusion);
    layout = lay_out<capacity>(info.data(), g.count(), fusion, plan, whole_rooms<capacity>(info.data(), g.count()));
    for (int i = 0; i < axis_count; ++i) {
      const Index rows = rows_of_axis(static_cast<Axis>(i));
      const auto allocate = [&](std::vector<double>& region, Index columns) {
        region.assign(static_cast<std::size_t>(columns * rows), unset);
        region.insert(region.end(), guard, untouched);
      };
      allocate(kept[i], layout.kept.on[i]), allocate(temporary[i], layout.temporary.on[i]);
    }
  }

  bool guards_hold() const {
    for (int i = 0; i < axis_count; ++i) {
      for (const auto* region : {&kept[i], &temporary[i]}) {
        if (!std::all_of(region->end() - guard, region->end(), [](double x) { return x == untouched; })) return false;
      }
    }
    return true;
  }
  const Info& at(int node) const { return info[static_cast<std::size_t>(node)]; }
  bool outside(int node) const { return !at(node).executes() || at(node).result; }
  double* region(std::vector<double> (&of)[axis_count], Axis axis, Index columns) {
    return of[static_cast<int>(axis)].data() + columns * rows_of_axis(axis);
  }
  double* value_at(int i) {
    if (outside(i)) return value[static_cast<std::size_t>(i)].data();
    if (!stores_value<capacity>(info.data(), fusion, plan, i)) throw PlanFault("no value of", i);
    return region(plan.kept[i] ? kept : temporary, at(i).shape.axis, layout.value[i]);
  }
  double* gradient_at(int i) {
    if (!fusion.wanted[i]) throw PlanFault("no gradient of", i);
    const int home = plan.shares[i];
    if (at(home).kind == Kind::input && at(home).carry && plan.in_place) {
      throw PlanFault("a carry in place has no home of its own:", home);
    }
    if (outside(home)) return gradient[static_cast<std::size_t>(home)].data();
    if (!keeps_gradient(info.data(), plan, home) && !stores_gradient<capacity>(info.data(), fusion, plan, home)) {
      throw PlanFault("no home for the gradient of", i);
    }
    auto& where = keeps_gradient(info.data(), plan, home) ? kept : temporary;
    return region(where, at(home).shape.axis, layout.gradient[home]);
  }
  void fill(int node, double x) { std::fill_n(gradient_at(node), size_of(at(node).shape), x); }
  void poison(const Columns& from, const Columns& size) {
    for (int i = 0; i < axis_count; ++i) {
      const Index rows = rows_of_axis(static_cast<Axis>(i));
      std::fill_n(temporary[i].begin() + from.on[i] * rows, size.on[i] * rows, unset);
    }
  }

  /// What an op saved on other axes than its own has to survive, too.
  template <class F>
  void each_saved(int node, F f) {
    for (int i = 0; i < axis_count; ++i) {
      const Index rows = rows_of_axis(static_cast<Axis>(i));
      double* data = region(kept, static_cast<Axis>(i), layout.saved[node].on[i]);
      for (Index k = 0; k < at(node).saved.on[i] * rows; ++k) f(data[k], node + 100 * static_cast<double>(k));
    }
  }

  Memory memory(int node, bool backward) {
    static double gone[most_elements];
    std::fill_n(gone, most_elements, unset);
    const Axis axis = at(node).shape.axis;
    Memory m{{},
             {gone, at(node).shape.cols},
             {region(kept, axis, layout.saved[node][axis]), 1},
             own[static_cast<std::size_t>(node)].data()};
    for (int k = 0; k < at(node).argument_count; ++k) {
      const int a = at(node).arguments[k];
      m.in[k] = {backward && !outside(a) && !plan.kept[a] ? gone : value_at(a), at(a).shape.cols};
    }
    if (!backward || plan.kept[node]) m.out.data = value_at(node);
    return m;
  }

  using Locals = double[capacity];
  /// The members of a group at one place; leaf(a) reads an operand from outside.
  template <class Needed, class Leaf>
  void evaluate(int root, const Needed& needed, Locals& local, const Leaf& leaf) {
    for (int m = fusion.member_begin[root]; m < fusion.member_end[root]; ++m) {
      const int node = fusion.members[m];
      if (!needed(node)) continue;
      double x[3] = {};
      for (int k = 0; k < at(node).argument_count; ++k) {
        const int a = at(node).arguments[k];
        x[k] = fusion.group[a] == root ? local[a] : leaf(a);
      }
      local[node] = value_of(graph.op[static_cast<std::size_t>(node)], x);
    }
  }

  void map_forward(int root) {
    const int product = fusion.epilogue_of[root];
    const bool reduces = at(root).kind == Kind::reduction;
    const Shape shape = loop_shape(info.data(), root);
    double accumulators[most_elements], *out = value_at(root);
    if (product >= 0) {  // in registers, unless the plan keeps them
      Memory m = memory(product, true);
      for (int k = 0; k < 2; ++k) m.in[k].data = value_at(at(product).arguments[k]);
      m.out.data = plan.kept[product] ? value_at(product) : accumulators;
      run_op(graph, product, m);
      if (plan.kept[product]) std::copy_n(m.out.data, size_of(shape), accumulators);
    }
    if (reduces) std::fill_n(out, size_of(at(root).shape), 0.0);
    const double scale = scale_of(graph, root);
    for (Index r = 0; r < rows_of_shape(shape); ++r) {
      for (Index c = 0; c < shape.cols; ++c) {
        const Index i = r * shape.cols + c;
        Locals local;
        std::fill_n(local, capacity, unset);
        evaluate(root, [](int) { return true; }, local, [&](int a) {
          return a == product ? accumulators[i] : value_at(a)[spread(at(a).shape, r, c)];
        });
        if (reduces) {
          out[target_of(graph, root, r, c)] += scale * local[root];
        } else {
          out[i] = local[root];
        }
      }
    }
  }

  void forward() {
    for (int s = 0; s < fusion.steps; ++s) {
      const int node = fusion.order[s];
      poison(layout.forward_workspace[node], at(node).workspace);
      if (at(node).looped()) {
        map_forward(node);
      } else {
        if (at(node).stack) each_saved(node, [](double& place, double mark) { place = mark; });
        run_op(graph, node, memory(node, false));
      }
      poison(layout.forward_workspace[node], at(node).workspace);
    }
  }

  void op_backward(int node) {
    const Shape shape = at(node).shape;
    const int count = at(node).argument_count;
    for (int k = 0; k < count; ++k) {
      if (plan.argument_cleared[node][k]) fill(at(node).arguments[k], 0);
    }
    const auto writes = [&](int k) { return fusion.wanted[at(node).arguments[k]]; };
    for (int k = 0; k < count; ++k) {  // a kernel may write any operand's gradient before it reads the rest
      const int a = at(node).arguments[k];
      if (writes(k) && plan.argument_write[node][k] == Write::store && !plan.over_value[a]) fill(a, unset);
      if (writes(k) && gradient_at(a) == gradient_at(node)) throw PlanFault("a gradient where it comes from:", a);
    }
    const Memory m = memory(node, true);
    const View g{gradient_at(node), shape.cols};
    double parts[3][most_elements] = {};
    for (int k = 0; k < count; ++k) {
      if (writes(k)) pull_op(graph, node, m, g, k, parts[k]);
    }
    if (at(node).stack) {
      each_saved(node, [&](double place, double mark) {
        if (place != mark) throw PlanFault("lost what was saved by", node);
      });
      pull_own(shape, m, g, own_gradient[static_cast<std::size_t>(node)].data());
      fill(node, unset);
    }
    for (int k = count - 1; k >= 0; --k) {
      if (!writes(k)) continue;
      const int a = at(node).arguments[k];
      double* to = gradient_at(a);
      if (plan.over_value[a] && to != value_at(a)) throw PlanFault("a gradient beside its value:", a);
      for (std::size_t e = 0; e < size_of(graph.argument(node, k).shape); ++e) {
        to[e] = plan.argument_write[node][k] == Write::store ? parts[k][e] : to[e] + parts[k][e];
      }
    }
  }

  void map_backward(int root) {
    const int begin = fusion.leaf_begin[root], end = fusion.leaf_end[root];
    int slot[capacity];
    for (int l = begin; l < end; ++l) {
      const int leaf = fusion.leaves[l];
      slot[leaf] = l;
      if (plan.leaf_cleared[l]) fill(leaf, 0);
      const bool elsewhere = fusion.wanted[leaf] && plan.shares[leaf] != plan.shares[root];
      if (elsewhere && plan.leaf_write[l] == Write::store) fill(leaf, unset);
    }
    if (plan.idle[root]) return;
    const Shape shape = loop_shape(info.data(), root);
    const bool reduces = at(root).kind == Kind::reduction;
    const double scale = scale_of(graph, root), *incoming = gradient_at(root);
    const double* result = plan.kept[root] && !reduces ? value_at(root) : nullptr;
    for (Index r = 0; r < rows_of_shape(shape); ++r) {
      double row_sum[capacity] = {};
      for (Index c = 0; c < shape.cols; ++c) {
        const Index i = r * shape.cols + c;
        Locals local, adjoint{};
        std::fill_n(local, capacity, unset);
        const auto leaf = [&](int a) {
          const bool there = outside(a) || plan.kept[a];
          return plan.leaf_read[slot[a]] && there ? value_at(a)[spread(at(a).shape, r, c)] : unset;
        };
        evaluate(root, [&](int node) { return plan.recomputed[node] && node != root; }, local, leaf);
        if (result) local[root] = result[i];
        adjoint[root] = scale * incoming[reduces ? target_of(graph, root, r, c) : static_cast<std::size_t>(i)];
        for (int m = fusion.member_end[root] - 1; m >= fusion.member_begin[root]; --m) {
          const int node = fusion.members[m];
          for (int k = 0; k < at(node).argument_count; ++k) {
            if (!fusion.wanted[at(node).arguments[k]]) continue;
            double x[3] = {unset, unset, unset};  // only what the pull-back declares to read
            for (int b = 0; b < at(node).argument_count; ++b) {
              const int operand = at(node).arguments[b];
              if (at(node).reads[k] >> b & 1) x[b] = fusion.group[operand] == root ? local[operand] : leaf(operand);
            }
            const double y = at(node).reads_output >> k & 1 ? local[node] : unset;
            adjoint[at(node).arguments[k]] +=
                pull_back(graph.op[static_cast<std::size_t>(node)], k, adjoint[node], y, x);
          }
        }
        for (int l = begin; l < end; ++l) {
          const int a = fusion.leaves[l];
          if (!fusion.wanted[a] || plan.leaf_write[l] == Write::skip) continue;
          const bool column = !(at(a).shape == shape) && !(at(a).shape.is_fixed() && at(a).shape.rows == 1);
          row_sum[a] += adjoint[a];
          if (column && c + 1 < shape.cols) continue;
          double& place = gradient_at(a)[spread(at(a).shape, r, c)];
          const double sum = column ? row_sum[a] : adjoint[a];
          place = plan.leaf_write[l] == Write::store ? sum : place + sum;
        }
      }
    }
  }

  void backward() {
    for (int s = fusion.steps - 1; s >= 0; --s) {
      const int node = fusion.order[s];
      if (!fusion.wanted[node]) continue;
      poison(layout.backward_workspace[node], at(node).workspace);
      if (at(node).looped()) {
        map_backward(node);
        const int product = fusion.epilogue_of[node];
        if (product >= 0 && fusion.wanted[product]) op_backward(product);
      } else {
        op_backward(node);
      }
      poison(layout.backward_workspace[node], at(node).workspace);
    }
  }
};

}  // namespace test
