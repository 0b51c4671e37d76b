// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/walk.hpp
/// Walking and freeing expressions.
///
/// Nodes are numbered by a walk from the root, never by creation: compilers evaluate operands in different
/// orders, and with the order every offset of a checkpoint would change. Walks are iterative, because the
/// depth of constant evaluation is limited.

#include <simplx/core/results.hpp>

namespace simplx::inline SIMPLX_TARGET::detail {

inline constexpr int unvisited = -1, entered = -2;

/// Calls visit(node) for every node that root needs, arguments first. visit sets node->index (>= 0).
template <class Visit>
constexpr void postorder(Node* root, Visit visit) {
  if (root->index != unvisited) return;
  root->link = nullptr;
  root->index = entered;
  root->cursor = 0;
  for (Node* top = root; top;) {
    if (top->cursor < top->argument_count) {
      Node* argument = top->arguments[top->cursor++];
      if (argument->index == unvisited) {
        argument->index = entered;
        argument->cursor = 0;
        argument->link = top;
        top = argument;
      }
    } else {
      Node* done = top;
      top = top->link;
      visit(done);
    }
  }
}

/// Undoes the marks of postorder, but not beyond nodes that are marked as `outside`.
constexpr void clear_marks(Node* root, int outside = unvisited) {
  root->link = nullptr;
  root->index = unvisited;
  root->cursor = 0;
  for (Node* top = root; top;) {
    if (top->cursor < top->argument_count) {
      Node* argument = top->arguments[top->cursor++];
      if (argument->index != unvisited && argument->index != outside) {
        argument->index = unvisited;
        argument->cursor = 0;
        argument->link = top;
        top = argument;
      }
    } else {
      top = top->link;
    }
  }
}

/// The same of every node, numbered from 0 on; afterwards none is marked.
template <class Visit>
constexpr void each_node(Node* root, Visit visit) {
  int count = 0;
  postorder(root, [&](Node* node) {
    node->index = count++;
    visit(node);
  });
  clear_marks(root);
}

/// What frozen(...) does to a node.
constexpr void freeze(Node* node) { node->frozen |= node->kind == Kind::parameter || node->block; }

/// No gradient flows through frozen layers of what none is wanted of, and nothing of them is kept for a backward.
constexpr void stop_at_frozen_layers(Node* root) {
  each_node(root, [](Node* node) {
    const bool trains = (node->kind == Kind::parameter || node->block) && !node->frozen;
    node->depends = trains || (node->kind == Kind::input && node->wanted);
    for (int i = 0; i < node->argument_count && !node->stops; ++i) node->depends |= node->arguments[i]->depends;
    node->stops |= node->block && !node->depends;
  });
}

/// Frees all that is connected to the node: what it uses, what uses it, and so on.
constexpr void release(Node* seed) {
  constexpr int listed = -3;
  Node *todo = seed, *all = nullptr;
  seed->index = listed;
  seed->link = nullptr;
  const auto list = [&](Node* node) {
    if (node && node->index != listed) {
      node->index = listed;
      node->link = todo;
      todo = node;
    }
  };
  while (todo) {
    Node* node = todo;
    todo = node->link;
    node->link = all;
    all = node;
    for (int i = 0; i < node->argument_count; ++i) list(node->arguments[i]);
    for (Node* user = node->first_user; user;) {
      list(user);
      int slot = 0;
      while (user->arguments[slot] != node) ++slot;
      user->arguments[slot] = nullptr;  // a node used twice stands twice in the list: take the next slot then
      user = user->next_user[slot];
    }
  }
  while (all) {
    Node* node = all;
    all = all->link;
    if (node->block) node->block->destroy(node->block);
    if (node->rules) node->rules->destroy(node->rules);
    delete node;
  }
}

/// The nth node of the walk from root.
constexpr Node* node_at(Node* root, int wanted) {
  Node* found = nullptr;
  each_node(root, [&](Node* node) {
    if (node->index == wanted) found = node;
  });
  return found;
}

/// Calls visit(node) for what a module made: the nodes of its results up to, and without, what it was given.
template <class Made, class Visit, class... Arguments>
constexpr void each_made(const Made& results, Visit visit, const Arguments&... given) {
  [[maybe_unused]] const auto mark = [](const auto& argument, int index) {
    if constexpr (requires { argument.node; }) argument.node->index = index;
  };
  (mark(given, 0), ...);  // the walk stops there
  int count = 0;
  each_result(results, [&](Expr result, const char*) {
    postorder(result.node, [&](Node* node) {
      node->index = ++count;
      visit(node);
    });
  });
  (mark(given, unvisited), ...);
  each_result(results, [](Expr result, const char*) {
    if (result.node->index != unvisited) clear_marks(result.node);
  });
}

}  // namespace simplx::detail
