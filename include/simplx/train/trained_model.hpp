// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/trained_model.hpp
/// What Trainer reads off the graph of a model: where its loss and logits are, and what its inputs may be. Of several
/// losses each has the labels; what they are along is read off the first that the graph has.

#include <simplx/core/context.hpp>
#include <simplx/core/rows_apart.hpp>
#include <simplx/core/view.hpp>

namespace simplx::inline SIMPLX_TARGET {
namespace detail {

/// Whether each sequence of a batch has a loss and gradients of its own, whatever the others are.
template <class G>
constexpr bool keeps_sequences_apart() {
  return keeps_rows_apart<G, Axis::tokens, Axis::sequences, Axis::labelled>();
}

template <class G>
struct TrainedModel {
  static constexpr int find_op(Tag op) {
    for (int i = 0; i < G::count; ++i) {
      if (G::flat.label[i].op == op) return i;
    }
    return -1;
  }
  /// Whether the loss computes its logits in tiles and holds none of them.
  static constexpr bool tiled() { return find_op("linear_cross_entropy") >= 0; }
  static constexpr int loss_node() {
    static_assert(!G::sound || tiled() || find_op("cross_entropy") >= 0,
                  "simplx: Trainer needs a model that ends with cross_entropy(...) or linear_cross_entropy(...)");
    return G::sound ? find_op(tiled() ? "linear_cross_entropy" : "cross_entropy") : 0;
  }
  static constexpr int logits_node() {
    static_assert(!tiled(),
                  "simplx: a loss in tiles holds no logits: take them from Inference<logits_of<model>>, or train a "
                  "model with tiled_loss = false");
    return G::table.info[loss_node()].arguments[0];
  }
  static constexpr bool has_other_logits() {
    for (int i = 0; i < G::count; ++i) {
      const Tag name = G::flat.label[i].op;
      const bool is_loss = name == Tag("cross_entropy") || name == Tag("linear_cross_entropy");
      if (is_loss && G::table.info[i].arguments[0] != logits_node()) return true;
    }
    return false;
  }
  /// The same, where a forward pass leaves them: what backward does not read, others may overwrite.
  static constexpr int logits_left() {
    constexpr int node = logits_node();
    static_assert(!G::sound || !has_other_logits(),
                  "simplx: this model has several losses, of several logits: take those that are wanted from Inference "
                  "of a model that ends with them");
    static_assert(!G::sound || G::plan.kept[node] || G::fusion.step_of[loss_node()] == G::fusion.steps - 1,
                  "simplx: a forward pass overwrites these logits, as nothing in training reads them again (they are "
                  "frozen, and the loss has further parts): take them from Inference of a model that ends with them");
    return node;
  }
  /// What has a label: tokens or sequences.
  static constexpr Axis labelled_axis() {
    constexpr Axis axis = G::table.info[loss_node()].shape.axis;
    static_assert(!G::sound || axis == Axis::tokens || axis == Axis::sequences,
                  "simplx: Trainer needs labels along the tokens or the sequences: indices(\"labels\", Axis::tokens)");
    return axis;
  }
  /// Whether the losses are all that it gives: what a step seeds with 1 / labels, and sums.
  static constexpr bool gives_losses() {
    const Shape losses = G::table.info[loss_node()].shape, result = G::table.info[view_of<G>.result_node(0)].shape;
    return G::layout.outputs == 1 && result.axis == losses.axis && result.rows == losses.rows && result.cols == 1;
  }
  /// Whether a Trainer can train it; it gives `more` inputs of its own.
  template <int more>
  static constexpr bool is_trainable() {
    static_assert(!G::sound || (G::layout.inputs == 2 + more && G::input_number("tokens") >= 0 &&
                                G::input_number("labels") >= 0),
                  "simplx: Trainer needs a model with the inputs indices(\"tokens\", ...) and indices(\"labels\", "
                  "...), and no other, since batches have none; for more there is Learner");
    static_assert(!G::sound || (bounded("tokens") && bounded("labels")),
                  "simplx: Trainer knows tokens and labels by the rows of the tables that they look up, and here these "
                  "are run-time rows, of which it evaluates some at a time: give gather a weight, or take Learner");
    static_assert(!G::sound || gives_losses(),
                  "simplx: Trainer needs a model whose only result is the loss of each token or sequence, as "
                  "cross_entropy(...) gives it: without mean() or sum(), since a step divides by the labels of all "
                  "its parts, and without logits beside it, which Trainer::logits gives");
    return true;
  }
  /// Whether all sequences of a batch may be evaluated at once, as a GPU does; a CPU takes others one by one.
  static constexpr bool takes_sequences_together() {
    static_assert(!G::sound || keeps_sequences_apart<G>(),
                  "simplx: on a GPU the sequences of a batch are evaluated together, and this model would mix them: it "
                  "sums over rows (Over::rows, Over::all, transpose(a) * b), moves along the axis of sequences, or has "
                  "a kernel there that does not say rows_apart. Train it on the CPU, or reduce by sequence: "
                  "first_of_sequence, mean_of_sequence, attention");
    return true;
  }
  /// Columns of the logits.
  static constexpr Index classes() {
    if constexpr (tiled()) {
      return G::table.info[G::table.info[loss_node()].arguments[0]].shape.rows;  // of the table
    } else {
      return G::table.info[logits_node()].shape.cols;
    }
  }
  /// What is below this is a token, or a label, wherever the model looks it up.
  static constexpr Index tokens_known() { return known("tokens"); }
  static constexpr Index labels_known() { return known("labels"); }
  /// Whether -100 is a label: where it is not looked up in a table, too.
  static constexpr bool ignores_labels() {
    const int labels = view_of<G>.input_node("labels");
    for (const Lookup& lookup : view_of<G>.lookups) {
      if (lookup.indices == labels && !lookup.ignores) return false;
    }
    return true;
  }
  /// What stands for a label where logits alone are asked for.
  static constexpr std::int32_t no_label() { return ignores_labels() ? ignored_label : 0; }
  /// Tokens of the longest sequence that the positions allow.
  static constexpr Index longest_sequence() { return view_of<G>.longest; }

 private:
  static constexpr bool bounded(std::string_view input) {
    return view_of<G>.looks_up_static_rows(view_of<G>.input_node(input));
  }
  static constexpr Index known(std::string_view input) {
    return view_of<G>.index_bound(view_of<G>.input_node(input));
  }
};

}  // namespace detail
}  // namespace simplx
