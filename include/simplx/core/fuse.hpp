// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/fuse.hpp
/// First half of the plan: which gradients are wanted, which maps become one loop, in which order all runs.
///
/// A *group* is a set of maps of one shape evaluated together, element by element: its root is stored (a
/// reduction as root: summed), its members are locals. A map joins the group of its users when all of them are in one
/// group of its shape; so a group is convex and every value is computed once. A matrix product that only one group uses
/// becomes that group's first operand: the group is its epilogue, applied to the accumulators in registers.
///
/// Cost    linear in nodes and arguments

#include <simplx/core/info.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// Members of a group at most: its values live in registers and on the stack.
inline constexpr int max_group = 64;

/// Which gradients are wanted, which nodes are one group, and the order of the steps.
template <int capacity>
struct Fusion {
  bool wanted[capacity]{};       ///< a gradient flows through this node
  bool has_backward = false;     ///< through one that is computed
  int group[capacity]{};         ///< of a map or reduction: the root of its group; otherwise -1
  int epilogue_of[capacity]{};   ///< of a group's root: the product it finishes, or -1
  int finished_by[capacity]{};   ///< of a product: the root of its epilogue, or -1
  int order[capacity]{};         ///< nodes that run, first to last
  int steps = 0;
  int step_of[capacity]{};       ///< when a node is computed; -1 for leaves

  // Per root: members (ascending, the root last) and leaves (operands from outside), in pools.
  int member_begin[capacity]{}, member_end[capacity]{};
  int leaf_begin[capacity]{}, leaf_end[capacity]{};
  int members[capacity]{};
  int leaves[capacity * 3]{};
};

namespace detail {

/// A gradient flows through a node that something wants it of, unless it stops there, and that leads to a result.
template <int capacity>
constexpr void mark_wanted(const Info* info, int count, Fusion<capacity>& fusion) {
  for (int i = 0; i < count; ++i) {
    const Info& node = info[i];
    const bool trains = node.parameters > 0 && !node.frozen;  // a parameter, or a stack's layers
    fusion.wanted[i] = trains || (node.kind == Kind::input && node.wanted_input);
    for (int a = 0; a < node.argument_count; ++a) fusion.wanted[i] |= fusion.wanted[node.arguments[a]];
    if (node.kind == Kind::indices || node.stops) fusion.wanted[i] = false;
  }
  bool reached[capacity]{};  // a gradient comes from a result
  for (int i = count - 1; i >= 0; --i) {
    const Info& node = info[i];
    reached[i] |= node.result || node.kind == Kind::outputs;
    if (node.executes()) fusion.has_backward |= fusion.wanted[i] &= reached[i];
    for (int a = 0; a < node.argument_count; ++a) reached[node.arguments[a]] |= fusion.wanted[i];
  }
}

/// The group that all users of a node are in, or who they are instead.
template <int capacity>
struct Users {
  static constexpr int nobody = -1, several = -2;
  int group[capacity]{};
};

template <int capacity>
constexpr Users<capacity> join_groups(const Info* info, int count, Fusion<capacity>& fusion) {
  Users<capacity> users;
  for (int& group : users.group) group = users.nobody;
  int size[capacity]{};
  for (int i = count - 1; i >= 0; --i) {  // users first: they have higher numbers
    const Info& node = info[i];
    fusion.group[i] = -1;
    if (node.looped()) {
      const int root = users.group[i];
      const bool joins = root >= 0 && node.kind == Kind::map && !node.observed && !node.result &&
                         loop_shape(info, root) == node.shape && size[root] < max_group;
      fusion.group[i] = joins ? root : i;
      ++size[fusion.group[i]];
    }
    for (int a = 0; a < node.argument_count; ++a) {
      int& seen = users.group[node.arguments[a]];
      const int mine = node.looped() ? fusion.group[i] : users.several;
      seen = seen == users.nobody || seen == mine ? mine : users.several;
    }
  }
  return users;
}

/// Members by groups, in ascending order: counts, then places (a counting sort by root).
template <int capacity>
constexpr void list_members(int count, Fusion<capacity>& fusion) {
  for (int i = 0; i < count; ++i) {
    if (fusion.group[i] >= 0) ++fusion.member_end[fusion.group[i]];
  }
  for (int i = 0, next = 0; i < count; ++i) {
    if (fusion.group[i] != i) continue;
    const int size = fusion.member_end[i];
    fusion.member_begin[i] = fusion.member_end[i] = next;
    next += size;
  }
  for (int i = 0; i < count; ++i) {
    if (fusion.group[i] >= 0) fusion.members[fusion.member_end[fusion.group[i]]++] = i;
  }
}

/// Leaves of each group, once each: a map has at most 3 arguments, hence three places a node.
template <int capacity>
constexpr void list_leaves(const Info* info, int count, Fusion<capacity>& fusion) {
  int stamp[capacity]{}, next = 0;
  for (int root = 0; root < count; ++root) {
    if (fusion.group[root] != root) continue;
    fusion.leaf_begin[root] = next;
    for (int m = fusion.member_begin[root]; m < fusion.member_end[root]; ++m) {
      const Info& node = info[fusion.members[m]];
      for (int a = 0; a < node.argument_count; ++a) {
        const int argument = node.arguments[a];
        if (fusion.group[argument] == root || stamp[argument] == root + 1) continue;
        stamp[argument] = root + 1;
        fusion.leaves[next++] = argument;
      }
    }
    fusion.leaf_end[root] = next;
  }
}

/// A group finishes the last of the products that it alone uses; a product is stored before it is summed.
template <int capacity>
constexpr void take_epilogues(const Info* info, int count, const Users<capacity>& users, Fusion<capacity>& fusion) {
  for (int i = 0; i < count; ++i) fusion.epilogue_of[i] = fusion.finished_by[i] = -1;
  for (int i = 0; i < count; ++i) {
    if (fusion.group[i] != i || info[i].kind == Kind::reduction) continue;
    int& product = fusion.epilogue_of[i];
    for (int l = fusion.leaf_begin[i]; l < fusion.leaf_end[i]; ++l) {
      const int leaf = fusion.leaves[l];
      const bool alone = info[leaf].kind == Kind::product && users.group[leaf] == i;
      if (alone && info[leaf].shape == info[i].shape && leaf > product) product = leaf;
    }
    if (product >= 0) fusion.finished_by[product] = i;
  }
}

/// What runs, in the order of the nodes: kernels, roots of groups, and products that no group finishes.
template <int capacity>
constexpr void order_steps(const Info* info, int count, Fusion<capacity>& fusion) {
  for (int i = 0; i < count; ++i) {
    fusion.step_of[i] = -1;
    if (!info[i].executes() || (fusion.group[i] >= 0 && fusion.group[i] != i) || fusion.finished_by[i] >= 0) continue;
    fusion.order[fusion.steps] = i;
    fusion.step_of[i] = fusion.steps++;
  }
  for (int i = 0; i < count; ++i) {
    if (fusion.group[i] >= 0) fusion.step_of[i] = fusion.step_of[fusion.group[i]];
    if (fusion.finished_by[i] >= 0) fusion.step_of[i] = fusion.step_of[fusion.finished_by[i]];
  }
}

}  // namespace detail

template <int capacity>
constexpr Fusion<capacity> fuse(const Info* info, int count) {
  Fusion<capacity> fusion;
  detail::mark_wanted<capacity>(info, count, fusion);
  const detail::Users<capacity> users = detail::join_groups<capacity>(info, count, fusion);
  detail::list_members<capacity>(count, fusion);
  detail::list_leaves<capacity>(info, count, fusion);
  detail::take_epilogues<capacity>(info, count, users, fusion);
  detail::order_steps<capacity>(info, count, fusion);
  return fusion;
}

}  // namespace simplx
