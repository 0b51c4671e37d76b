// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/labelled_rows.cuh
/// A masked language model whose head computes the labelled tokens alone, as a change of its expressions:
///
///     loss(head(x), labels)   ->   loss(head(gather(x, rows)), labels of these rows)
///
/// `head` is all below the loss that goes row by row, down to the lowest x through which all of it comes: final norm,
/// transform and logits of an encoder, whose stack mixes rows. Parameters are the same, in the same places. `rows` is
/// an input along Axis::labelled, as the labels then are: the host says how many there are.

#include <simplx/core/equal_layers.hpp>
#include <simplx/core/graph.hpp>
#include <simplx/cuda/bfloat16_values.cuh>
#include <simplx/cuda/rewriting.cuh>
#include <simplx/ops/attention.hpp>
#include <simplx/ops/linear_cross_entropy.hpp>
#include <simplx/ops/rows.hpp>

namespace simplx::inline SIMPLX_TARGET::gpu {

/// Rows that a head computes of so many tokens: those with a label, a multiple of a 32nd of all, so that batches that
/// differ in a few labels are steps of the same sizes, and of 8, as tensor cores like it.
constexpr Index head_rows(Index labelled, Index tokens) {
  const Index step = round_up((tokens + 31) / 32, 8);
  return std::min(round_up(std::max<Index>(labelled, 1), step), tokens);
}

/// Whether a token sees those after it: then only few have labels, since what is predicted must be masked.
constexpr bool sees_ahead(Node* root) {
  bool found = false;
  detail::each_node(root, [&](Node* node) {
    if (is_attention(node->op)) found |= detail::heads_in(node->attributes).mask == Mask::full;
    if (node->block && !found) found = sees_ahead(detail::layer_of(node, 0).root);
  });
  return found;
}

/// The head of a numbered graph: its nodes are marked by `depends`.
struct LabelledHead {
  Node *loss = nullptr, *labels = nullptr;
  Node* x = nullptr;  ///< what it begins with; null if nothing can be left out

  constexpr bool has(const Node* node) const { return node->depends && node->index > x->index; }

  /// Whether its rows come of the same rows of its operands.
  static constexpr bool goes_by_rows(const Node& node) {
    const bool known = node.op == Tag("matmul") || node.op == Tag("layer_norm") || node.op == Tag("rms_norm");
    bool good = node.shape.axis == Axis::tokens && (known || node.kind == Kind::map || node.kind == Kind::reduction);
    for (int i = 0; i < node.argument_count; ++i) {
      const Axis axis = node.arguments[i]->shape.axis;
      good &= axis == Axis::fixed || (axis == Axis::tokens && (!known || i == 0));
    }
    return good;
  }

  /// Walks down from the loss, the node that is evaluated last first, as long as none but the head reads it.
  constexpr void find_x() {
    constexpr int room = 16;
    const bool tiled = loss->op == Tag("linear_cross_entropy");
    Node* const top = loss->arguments[tiled ? 2 : 0];
    Node* open[room]{top};
    for (int count = 1; count > 0 && count <= room - max_arguments;) {
      int last = 0;
      for (int i = 1; i < count; ++i) {
        if (open[i]->index > open[last]->index) last = i;
      }
      Node* const node = open[last];
      if (count == 1 && (tiled || node != top)) x = node;
      bool inside = goes_by_rows(*node);
      each_user(node, [&](const Node* user) { inside &= user == loss || user->depends; });
      if (!inside) return;
      node->depends = true;
      open[last] = open[--count];
      for (int i = 0; i < node->argument_count; ++i) {
        Node* const argument = node->arguments[i];
        bool known = argument->shape.is_fixed();
        for (int k = 0; k < count; ++k) known |= open[k] == argument;
        if (!known) open[count++] = argument;
      }
    }
  }
  /// The loss, if there is one alone, which nobody reads, of labels for it alone.
  constexpr void find_loss(const detail::Chain& chain) {
    int losses = 0;
    for (Node* node = chain.head; node; node = node->link) {
      if (!(node->op == Tag("cross_entropy")) && !(node->op == Tag("linear_cross_entropy"))) continue;
      loss = node;
      ++losses;
    }
    if (losses != 1 || loss->shape.axis != Axis::tokens) return;
    labels = loss->arguments[1];
    bool alone = labels->kind == Kind::indices;
    each_user(labels, [&](const Node* user) { alone &= user == loss; });
    each_user(loss, [&](const Node* user) { alone &= user->result; });
    if (alone) find_x();
  }
};

/// Makes the change, if there is anything to leave out.
constexpr bool gather_labelled(Node* root, const char* rows) {
  const detail::Chain chain = detail::chain_of(root);
  for (Node* node = chain.head; node; node = node->link) node->depends = false;  // as frozen(...) has left it
  LabelledHead head;
  head.find_loss(chain);
  if (head.x) {
    const auto move = [](Node* node) { node->shape.axis = Axis::labelled; };
    for (Node* node = chain.head; node; node = node->link) {
      if (head.has(node)) move(node);
    }
    move(head.labels), move(head.loss);
    each_user(head.loss, move);
    const Expr gathered = gather(Expr{head.x}, indices(rows, Axis::labelled));
    redirect(head.x, gathered.node, [&](const Node* user) {
      return is_live(user) && (head.has(user) || user == head.loss);
    });
  }
  detail::unnumber(chain);
  return head.x != nullptr;
}

/// A model with that change, if it makes one: `gathers`.
template <auto const& model>
struct LabelledRoot {
  using Lowering = AsWritten;
  static constexpr const char* rows = "labelled rows";  ///< the name of the input
  static constexpr bool gathers = detail::Gate<Root<model>>::sound && Root<model>::with([](Node* root) {
    return root->kind != Kind::error && sees_ahead(root) && gather_labelled(root, rows);
  });

  template <class F>
  static constexpr auto with(F f) {
    return Root<model>::with([f](Node* root) {
      gather_labelled(root, rows);
      return f(root);
    });
  }
};

/// The source of what a GPU trains.
template <auto const& model>
using TrainedRoot = std::conditional_t<LabelledRoot<model>::gathers, LabelledRoot<model>, Root<model>>;

}  // namespace simplx::gpu
