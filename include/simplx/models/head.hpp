// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/models/head.hpp
/// What makes logits, or a loss, of a model's last x and its table of embeddings E.

#include <simplx/core/named.hpp>
#include <simplx/nn/dropout.hpp>
#include <simplx/nn/linear.hpp>
#include <simplx/nn/norm.hpp>
#include <simplx/ops/activation.hpp>
#include <simplx/ops/linear_cross_entropy.hpp>
#include <simplx/ops/rows.hpp>
#include <simplx/ops/transpose.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// logits = x E^T.
///
/// Shapes  x (tokens, d), table (V, d) -> (tokens, V)
struct TiedHead {
  constexpr Expr operator()(Expr x, Expr table) const { return x * transpose(table); }
};

/// The loss of x E^T in place of the logits, which are never held all together (ops/linear_cross_entropy.hpp).
///
/// Shapes  x (tokens, d), table (V, d), labels (tokens) -> (tokens, 1)
struct TiledLoss {
  constexpr Expr operator()(Expr x, Expr table) const {
    return linear_cross_entropy(x, table, indices("labels", Axis::tokens));
  }
};

/// logits = LayerNorm(gelu(x W + b)) E^T + c: the head of a masked language model. Parameters head.dense.weight and
/// .bias, head.norm.gain and .bias, head.bias.
///
/// Shapes  as above
/// Source  Devlin et al. 2019 (its code); Liu et al. 2019
struct MaskedTokenHead {
  double norm_epsilon = 1e-5;

  constexpr Expr operator()(Expr x, Expr table) const { return inner(x) * transpose(table) + bias(table); }

  /// What meets the table, and c.
  constexpr Expr inner(Expr x) const {
    x = gelu(named("head.dense", Linear{.bias = true})(x));
    return named("head.norm", LayerNorm{norm_epsilon})(x);
  }
  static constexpr Expr bias(Expr table) { return vector("head.bias", table.shape().rows, zeros); }
};

/// The loss of those logits, as TiledLoss.
struct TiledMaskedTokenLoss {
  MaskedTokenHead head;

  constexpr Expr operator()(Expr x, Expr table) const {
    x = head.inner(x);
    return linear_cross_entropy(x, table, indices("labels", Axis::tokens), head.bias(table));
  }
};

/// logits = dropout(tanh(x_1 W + b)) C + c, where x_1 is the first token of a sequence. Parameters pooler.weight and
/// .bias, classifier.weight and .bias: names that no encoder has, so that none of its tensors is taken for one of them.
///
/// Shapes  x (tokens, d) -> (sequences, classes); W (d, pooled), C (pooled, classes); the table is not used
/// Source  Devlin et al. 2019; that dropout is after the tanh alone: Geiping & Goldstein 2023 (their code)
struct SequenceHead {
  Index classes = 2;
  Index pooled = 0;  ///< as wide as x unless given
  double dropout = 0.1;

  constexpr Expr operator()(Expr x, Expr) const {
    x = tanh(named("pooler", Linear{.out = pooled, .bias = true})(first_of_sequence(x)));
    x = named("pooler.dropout", Dropout{dropout})(x);
    return named("classifier", Linear{.out = classes, .bias = true})(x);
  }
};

}  // namespace simplx
