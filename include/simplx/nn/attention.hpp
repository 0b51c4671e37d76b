// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/nn/attention.hpp
/// Self-attention sub-blocks: multi-head attention, and shaped attention without projections.

#include <simplx/core/walk.hpp>
#include <simplx/nn/linear.hpp>
#include <simplx/ops/attention.hpp>

namespace simplx {

/// MHA(x) = Concat_h(A_h(x) x W^V_h) W^P.
///
/// Source  He & Hofmann 2024, Eq. (2) and (3)
struct MultiHeadAttention {
  int heads = 1;
  bool query_key_bias = false;

  constexpr Expr operator()(Expr x) const {
    auto query = named("query", Linear{width(x), query_key_bias})(x);  // (tokens, d)
    auto key = named("key", Linear{width(x), query_key_bias})(x);
    auto value = named("value", Linear{width(x)})(x);
    return named("projection", Linear{width(x)})(softmax_attention(query, key, value, {.count = heads}));
  }
};

/// Concat_h((alpha_h I + beta_h A_h(x) - gamma_h C) V_h): values are x itself, and there is no projection.
///
/// Queries start at zero and alpha, beta, gamma at one, so that the sub-block starts as the identity.
/// Source  He & Hofmann 2024, Eq. (12) and (13); the first layer's value matrix is that of App. B and D.1
struct ShapedAttention {
  int heads = 1;
  bool query_key_bias = false;
  bool has_value = false;  ///< V = x (alpha I + beta D) instead of x

  /// The sub-block of one layer of the paper's models: only the first has a value matrix.
  constexpr ShapedAttention at(int layer) const { return {heads, query_key_bias, layer == 0}; }

  constexpr Expr operator()(Expr x) const {
    auto query = named("query", Linear{width(x), query_key_bias, zeros})(x);  // (tokens, d)
    auto key = named("key", Linear{width(x), query_key_bias})(x);
    auto value = has_value ? named("value", ReparameterisedIdentity{})(x) : x;
    return shaped_attention(query, key, value, vector("alpha", heads), vector("beta", heads), vector("gamma", heads),
                            {.count = heads});
  }
};

}  // namespace simplx
