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

/// Lists the leaves of a root's group: a map has at most 3 arguments, hence three places a node.
template <int capacity>
constexpr void collect_group(const Info* info, int root, Fusion<capacity>& fusion, int (&stamp)[capacity],
                             int& next_leaf) {
  fusion.leaf_begin[root] = next_leaf;
  for (int m = fusion.member_begin[root]; m < fusion.member_end[root]; ++m) {
    const Info& node = info[fusion.members[m]];
    for (int a = 0; a < node.argument_count; ++a) {
      const int argument = node.arguments[a];
      if (fusion.group[argument] == root || stamp[argument] == root + 1) continue;
      stamp[argument] = root + 1;
      fusion.leaves[next_leaf++] = argument;
    }
  }
  fusion.leaf_end[root] = next_leaf;
}

}  // namespace detail

template <int capacity>
constexpr Fusion<capacity> fuse(const Info* info, int count) {
  Fusion<capacity> fusion;
  constexpr int nobody = -1, several = -2;
  int user_group[capacity]{};  // the group of all users, nobody or several
  int group_size[capacity]{};
  bool reached[capacity]{};  // a gradient comes from a result

  for (int i = 0; i < count; ++i) {
    fusion.group[i] = fusion.epilogue_of[i] = fusion.finished_by[i] = fusion.step_of[i] = -1;
    user_group[i] = nobody;
    const Info& node = info[i];
    const bool trains = node.parameters > 0 && !node.frozen;  // a parameter, or a stack's layers
    fusion.wanted[i] = trains || (node.kind == Kind::input && node.wanted_input);
    for (int a = 0; a < node.argument_count; ++a) fusion.wanted[i] |= fusion.wanted[node.arguments[a]];
    if (node.kind == Kind::indices || node.stops) fusion.wanted[i] = false;
  }

  for (int i = count - 1; i >= 0; --i) {  // users first: they have higher numbers
    const Info& node = info[i];
    reached[i] |= node.result || node.kind == Kind::outputs;
    if (node.executes()) fusion.wanted[i] &= reached[i];
    for (int a = 0; a < node.argument_count; ++a) reached[node.arguments[a]] |= fusion.wanted[i];
    if (node.looped()) {
      const int root = user_group[i];
      const bool joins = root >= 0 && node.kind == Kind::map && !node.observed && !node.result &&
                         loop_shape(info, root) == node.shape && group_size[root] < max_group;
      fusion.group[i] = joins ? root : i;
      ++group_size[fusion.group[i]];
    }
    for (int a = 0; a < node.argument_count; ++a) {
      int& seen = user_group[node.arguments[a]];
      const int mine = node.looped() ? fusion.group[i] : several;
      seen = seen == nobody || seen == mine ? mine : several;
    }
  }

  // Members in ascending order: count, then fill (a counting sort by root).
  int next_member = 0;
  for (int i = 0; i < count; ++i) {
    if (fusion.group[i] != i) continue;
    fusion.member_begin[i] = fusion.member_end[i] = next_member;
    next_member += group_size[i];
  }
  for (int i = 0; i < count; ++i) {
    if (fusion.group[i] >= 0) fusion.members[fusion.member_end[fusion.group[i]]++] = i;
  }

  int stamp[capacity]{}, next_leaf = 0;
  for (int i = 0; i < count; ++i) {
    if (fusion.group[i] != i) continue;
    detail::collect_group<capacity>(info, i, fusion, stamp, next_leaf);
    if (info[i].kind == Kind::reduction) continue;  // a product is stored before it is summed
    for (int l = fusion.leaf_begin[i]; l < fusion.leaf_end[i]; ++l) {
      const int leaf = fusion.leaves[l];
      if (info[leaf].kind == Kind::product && user_group[leaf] == i && info[leaf].shape == info[i].shape &&
          leaf > fusion.epilogue_of[i]) {
        fusion.epilogue_of[i] = leaf;
      }
    }
    if (fusion.epilogue_of[i] >= 0) fusion.finished_by[fusion.epilogue_of[i]] = i;
  }

  for (int i = 0; i < count; ++i) {
    if (!info[i].executes() || (fusion.group[i] >= 0 && fusion.group[i] != i) || fusion.finished_by[i] >= 0) continue;
    fusion.order[fusion.steps] = i;
    fusion.step_of[i] = fusion.steps++;
  }
  for (int i = 0; i < count; ++i) {
    if (fusion.group[i] >= 0) fusion.step_of[i] = fusion.step_of[fusion.group[i]];
    if (fusion.finished_by[i] >= 0) fusion.step_of[i] = fusion.step_of[fusion.finished_by[i]];
  }
  return fusion;
}

}  // namespace simplx
