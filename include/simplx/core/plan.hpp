// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/plan.hpp
/// Second half of the plan: what backward reads, who writes a gradient first, which gradients share memory.
///
/// Three static facts remove most of the memory traffic of reverse mode. A value is kept only if a pull-back
/// reads it. The first writer of a gradient stores and later ones accumulate: only a gradient that its first writer
/// adds to in parts, such as sums over rows, is set to zero before (`leaf_cleared`, `argument_cleared`).
/// A gradient that flows unchanged through a sum *is* the incoming one, and an elementwise pull-back may
/// overwrite what it reads, as long as nobody else still needs that memory: the incoming gradient, or, where an op
/// says so, the value of its operand (the gradient of logits lies where the logits were).
///
/// A parameter that several steps use, such as a table that is both embedding and head, has a sum for each of them:
/// only so can the sums over sequences have one order while threads work on several (core/turn.hpp).
///
/// Times of the backward pass: the step of node e is `2 * (steps - 1 - step_of[e])`, for a product that the
/// step's group finishes one later. Everything here is an ordinary loop, near-linear in the number of nodes,
/// and also runs at run time, where tests plan random graphs by the million.

#include <simplx/core/fuse.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// What backward reads, who writes a gradient first, and which gradients share memory; by node.
template <int capacity>
struct Plan {
  // What backward reads.
  bool kept[capacity]{};            ///< the value survives until backward
  bool recomputed[capacity]{};      ///< a group's member that backward evaluates again
  bool leaf_read[capacity * 3]{};   ///< beside Fusion::leaves: backward reads this operand

  // Who writes gradients.
  Write leaf_write[capacity * 3]{};                ///< beside Fusion::leaves
  bool leaf_cleared[capacity * 3]{};               ///< its gradient is set to zero before the step
  Write argument_write[capacity][max_arguments]{}; ///< of products and kernels
  bool argument_cleared[capacity][max_arguments]{};
  bool adds[capacity]{};            ///< the step adds to the gradient of a parameter
  int uses[capacity]{};             ///< of a parameter: the steps that do
  int leaf_use[capacity * 3]{}, argument_use[capacity][max_arguments]{};  ///< of these, the number of this one
  int shares[capacity]{};           ///< the node in whose gradient buffer this one's gradient lies
  bool over_value[capacity]{};      ///< of such a node: that buffer is its value's
  bool idle[capacity]{};            ///< of a group's root: its pull-back writes nothing
  bool in_place = false;            ///< of a block: the carry's gradient ends where the output's was

  // When gradients live (times of the backward pass).
  int first_write[capacity]{}, second_write[capacity]{}, last_write[capacity]{}, read_time[capacity]{};
  int value_read[capacity]{};  ///< when the last pull-back reads the value
};

inline constexpr int never = 1 << 30;

namespace detail {

template <int capacity>
constexpr int backward_time(const Info* info, const Fusion<capacity>& fusion, int node) {
  if (info[node].observed) return never;         // stays readable
  if (fusion.step_of[node] < 0) return never;    // inputs, parameters: read by the caller
  const int time = 2 * (fusion.steps - 1 - fusion.step_of[node]);
  return fusion.finished_by[node] >= 0 ? time + 1 : time;
}

/// Marks what the pull-backs of a step read: kept values, and members of groups to be evaluated again. The loop of a
/// sum stores nothing else, so there a costly member is kept in passing.
template <int capacity>
constexpr void plan_reads(const Info* info, const Fusion<capacity>& fusion, int step_node, int time,
                          Plan<capacity>& plan) {
  const auto reads_of = [&](int node, auto mark_argument, auto mark_result) {
    for (int a = 0; a < info[node].argument_count; ++a) {
      const bool trains = info[node].stack;  // layers read what they are given for their parameters, too
      if (!fusion.wanted[info[node].arguments[a]] && !trains) continue;
      for (int b = 0; b < info[node].argument_count; ++b) {
        if (info[node].reads[a] >> b & 1) mark_argument(info[node].arguments[b]);
      }
      if (info[node].reads_output >> a & 1) mark_result(node);
    }
  };
  const auto keep = [&](int node) { plan.kept[node] = true, plan.value_read[node] = time; };
  if (!info[step_node].looped()) {
    reads_of(step_node, keep, keep);
    return;
  }
  const int root = step_node;
  const auto mark = [&](int node) {
    if (fusion.group[node] == root && !(info[node].costly && info[root].kind == Kind::reduction)) {
      plan.recomputed[node] = true;
    } else {
      keep(node);
    }
  };
  for (int m = fusion.member_end[root] - 1; m >= fusion.member_begin[root]; --m) {
    const int member = fusion.members[m];
    reads_of(member, mark, [&](int node) { node == root ? keep(node) : mark(node); });
    if (!plan.recomputed[member]) continue;
    for (int a = 0; a < info[member].argument_count; ++a) mark(info[member].arguments[a]);
  }
  for (int l = fusion.leaf_begin[root]; l < fusion.leaf_end[root]; ++l) {
    for (int m = fusion.member_begin[root]; m < fusion.member_end[root] && !plan.leaf_read[l]; ++m) {
      const Info& member = info[fusion.members[m]];
      for (int b = 0; b < member.argument_count; ++b) {
        if (member.arguments[b] != fusion.leaves[l]) continue;
        bool read = plan.recomputed[fusion.members[m]];
        for (int a = 0; a < member.argument_count; ++a) {
          read |= fusion.wanted[member.arguments[a]] && (member.reads[a] >> b & 1);
        }
        plan.leaf_read[l] |= read;
      }
    }
  }
  if (fusion.epilogue_of[root] >= 0) reads_of(fusion.epilogue_of[root], keep, keep);
}

/// Notes a step's write to a node's gradient; true for the first.
template <int capacity>
constexpr bool note_write(int node, int time, Plan<capacity>& plan) {
  const bool first = plan.first_write[node] == never;
  if (first) {
    plan.first_write[node] = time;
  } else if (plan.second_write[node] == never) {
    plan.second_write[node] = time;
  }
  plan.last_write[node] = time;
  ++plan.uses[node];
  return first;
}

template <int capacity>
constexpr void plan_arguments(const Info* info, const Fusion<capacity>& fusion, int node, int time,
                              Plan<capacity>& plan) {
  const Info& op = info[node];
  for (int a = 0; a < op.argument_count; ++a) {
    const int argument = op.arguments[a];
    if (!fusion.wanted[argument]) continue;
    bool repeated = false, seen = false;
    for (int b = 0; b < op.argument_count; ++b) repeated |= b != a && op.arguments[b] == argument;
    for (int b = 0; b < a; ++b) seen |= op.arguments[b] == argument;
    const bool first = !seen && note_write(argument, time, plan);
    const bool stores = first && !repeated && !info[argument].shape.is_fixed();
    plan.argument_use[node][a] = plan.uses[argument] - 1;
    plan.adds[node] |= info[argument].kind == Kind::parameter;
    plan.argument_write[node][a] = stores ? Write::store : Write::accumulate;
    plan.argument_cleared[node][a] = first && !stores && info[argument].kind != Kind::parameter;
  }
  if (op.stack) note_write(node, time, plan);  // layers use the incoming gradient as their own memory
}

template <int capacity>
constexpr void plan_leaves(const Info* info, const Fusion<capacity>& fusion, int root, int time,
                           Plan<capacity>& plan) {
  const Shape shape = loop_shape(info, root);
  for (int l = fusion.leaf_begin[root]; l < fusion.leaf_end[root]; ++l) {
    const int leaf = fusion.leaves[l];
    if (!fusion.wanted[leaf]) continue;
    const bool first = note_write(leaf, time, plan) && info[leaf].kind != Kind::parameter;
    const bool reduced = info[leaf].shape.is_fixed() && !(info[leaf].shape == shape);
    plan.leaf_use[l] = plan.uses[leaf] - 1;
    plan.adds[root] |= info[leaf].kind == Kind::parameter;
    plan.leaf_write[l] = first && !reduced ? Write::store : Write::accumulate;
    plan.leaf_cleared[l] = first && reduced;
  }
}

/// Whether the incoming gradient reaches the leaf unchanged, along a single path of sums.
template <int capacity>
constexpr bool passes_unchanged(const Info* info, const Fusion<capacity>& fusion, int root, int leaf) {
  for (int node = leaf; node != root;) {
    int user = -1, slot = 0, uses = 0;
    for (int m = fusion.member_begin[root]; m < fusion.member_end[root]; ++m) {
      const Info& member = info[fusion.members[m]];
      for (int a = 0; a < member.argument_count; ++a) {
        if (member.arguments[a] == node) user = fusion.members[m], slot = a, ++uses;
      }
    }
    if (uses != 1 || !(info[user].passes >> slot & 1)) return false;
    node = user;
  }
  return true;
}

/// Lets leaves of a step use the memory of the incoming gradient, where nobody else still needs it.
template <int capacity>
constexpr void plan_sharing(const Info* info, const Fusion<capacity>& fusion, int root, int now,
                            int (&next_sharer)[capacity], int (&sharers)[capacity], Plan<capacity>& plan) {
  const int home = plan.shares[root];
  const auto forget_the_past = [&] {
    int* link = &sharers[home];
    while (*link >= 0) {
      if (plan.read_time[*link] <= now) {
        *link = next_sharer[*link];
      } else {
        link = &next_sharer[*link];
      }
    }
  };
  const auto may_join = [&](int leaf) {
    for (int other = sharers[home]; other >= 0; other = next_sharer[other]) {
      const bool other_changes = plan.last_write[other] > now && plan.second_write[other] != never;
      const int change = std::max(plan.second_write[other], now);
      if (other_changes && plan.read_time[leaf] >= change) return false;
      if (plan.second_write[leaf] != never && plan.read_time[other] >= plan.second_write[leaf]) return false;
    }
    return true;
  };
  forget_the_past();
  bool all_unchanged = true, overwritten = false;
  for (int pass = 0; pass < 2; ++pass) {  // unchanged gradients first: any number of them may share
    for (int l = fusion.leaf_begin[root]; l < fusion.leaf_end[root]; ++l) {
      const int leaf = fusion.leaves[l];
      const Info& node = info[leaf];
      if (!fusion.wanted[leaf]) continue;
      const bool unchanged = passes_unchanged(info, fusion, root, leaf);
      if (unchanged != (pass == 0)) continue;
      const bool owns_gradient = node.executes() || (node.carry && info[home].result);
      const bool candidate = owns_gradient && !node.observed && node.shape == info[root].shape &&
                             plan.first_write[leaf] == now && plan.shares[leaf] == leaf;
      const bool joins = candidate && (unchanged ? may_join(leaf) : sharers[home] < 0 && !overwritten);
      if (joins) {
        plan.shares[leaf] = home;
        next_sharer[leaf] = sharers[home];
        sharers[home] = leaf;
        if (unchanged) {
          plan.leaf_write[l] = Write::skip;
        } else {
          overwritten = true;
        }
      }
      all_unchanged &= joins && unchanged;
    }
  }
  plan.idle[root] = all_unchanged;
}

/// Lets the gradient of a kernel's operand take the place of the value, where the op allows it and reads it last.
template <int capacity>
constexpr void plan_over_values(const Info* info, const Fusion<capacity>& fusion, int node, int time,
                                Plan<capacity>& plan) {
  const Info& op = info[node];
  for (int a = 0; a < op.argument_count; ++a) {
    const int argument = op.arguments[a];
    const Info& value = info[argument];
    const bool in_arena = value.executes() && !value.observed && !value.result;
    const bool stores = fusion.wanted[argument] && plan.argument_write[node][a] == Write::store;
    if ((op.overwrites >> a & 1) && in_arena && stores && plan.kept[argument] && plan.value_read[argument] == time) {
      plan.over_value[argument] = true;
    }
  }
}

}  // namespace detail

template <int capacity>
constexpr Plan<capacity> make_plan(const Info* info, int count, const Fusion<capacity>& fusion) {
  Plan<capacity> plan;
  int next_sharer[capacity]{}, sharers[capacity]{};
  for (int i = 0; i < count; ++i) {
    plan.shares[i] = i;
    plan.first_write[i] = plan.second_write[i] = never;
    plan.last_write[i] = -1;
    plan.read_time[i] = detail::backward_time(info, fusion, i);
    sharers[i] = next_sharer[i] = -1;
    plan.kept[i] = info[i].observed;
    if (info[i].result) plan.first_write[i] = -1;  // the caller seeds it
  }
  for (int s = fusion.steps - 1; s >= 0; --s) {
    const int node = fusion.order[s];
    if (!fusion.wanted[node]) continue;
    const int time = 2 * (fusion.steps - 1 - s);
    detail::plan_reads(info, fusion, node, time, plan);
    if (info[node].looped()) {
      detail::plan_leaves(info, fusion, node, time, plan);
      const int product = fusion.epilogue_of[node];
      if (product >= 0 && fusion.wanted[product]) detail::plan_arguments(info, fusion, product, time + 1, plan);
    } else {
      detail::plan_arguments(info, fusion, node, time, plan);
    }
  }
  for (int s = fusion.steps - 1; s >= 0; --s) {
    const int node = fusion.order[s];
    const int time = 2 * (fusion.steps - 1 - s);
    if (!fusion.wanted[node]) continue;
    if (info[node].kind == Kind::map) {
      const int home = plan.shares[node];
      if (info[node].observed) sharers[home] = node;  // its gradient has to stay as it is
      detail::plan_sharing(info, fusion, node, time, next_sharer, sharers, plan);
    } else if (!info[node].looped()) {
      detail::plan_over_values(info, fusion, node, time, plan);
    }
  }
  for (int i = 0; i < count; ++i) {
    if (info[i].carry) plan.in_place = plan.shares[i] != i;
  }
  return plan;
}

}  // namespace simplx
