// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/rewriting.cuh
/// Changes of expressions before they are planned. Nodes of a graph are numbered meanwhile (core/layers.hpp), which
/// tells them from what the model has made and does not use.

#include <simplx/core/layers.hpp>

namespace simplx::inline SIMPLX_TARGET::gpu {

constexpr bool is_live(const Node* node) { return node->index != detail::unvisited; }

/// The first operand of a user that is the node: one that is used twice by another stands there twice in a row.
constexpr int first_slot(const Node* user, const Node* node) {
  int slot = 0;
  while (user->arguments[slot] != node) ++slot;
  return slot;
}

/// Calls f(user) for each live user of a node.
template <class F>
constexpr void each_user(const Node* node, F f) {
  for (Node* user = node->first_user; user;) {
    if (is_live(user)) f(user);
    user = user->next_user[first_slot(user, node)];
  }
}

/// Gives the users of a node that `moves` names another operand in its place.
template <class Moves>
constexpr void redirect(Node* from, Node* to, Moves moves) {
  Node* user = from->first_user;
  from->first_user = nullptr;
  while (user) {
    Node* const current = user;
    user = current->next_user[first_slot(current, from)];
    Node* const operand = moves(current) ? to : from;
    for (int slot = 0; slot < current->argument_count; ++slot) {
      if (current->arguments[slot] != from) continue;
      current->arguments[slot] = operand;
      current->next_user[slot] = operand->first_user;
      operand->first_user = current;
    }
  }
}

}  // namespace simplx::gpu
