// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/blocks/sas_p.hpp
/// The SAS-P block (Fig. 11 of "Simplifying Transformer Blocks", He & Hofmann 2024): the parallel block of Eq. (7)
/// without its skip, with shaped attention, and without values (but for the first layer's) and projections.

#include <simplx/nn/attention.hpp>
#include <simplx/nn/mlp.hpp>
#include <simplx/nn/norm.hpp>

namespace simplx::inline SIMPLX_TARGET {

///     X_out = beta_SA ShapedAttention(N) + beta_FF MLP(N),   N = Norm(X)
///
/// The first layer of a stack has a value matrix, the identity at first (App. C, Fig. 24).
template <class Attention, class Norm = RmsNorm, class FeedForward = Mlp>
struct SasPOf {
  Attention attention;
  FeedForward mlp;
  Norm norm{};
  double mlp_gain = 0.1;  ///< beta_FF at first

  constexpr Expr operator()(int layer, Expr x) const {
    auto n = named("norm1", at_layer(norm, layer))(x);  // used twice, computed once
    return scalar("attention_gain", ones) * named("attention", attention.at(layer))(n)
         + scalar("mlp_gain", constant(mlp_gain)) * named("mlp", mlp)(n);
  }
};

using SasP = SasPOf<ShapedAttention>;

/// With the matrix of Value-SkipInit, Eq. (4), in each head: alpha_h I + beta_h A_h (Fig. 13).
using SasPSkipInit = SasPOf<SelfAttention<AttentionMatrix::skip_init, FirstLayer<Reparameterised>>>;

/// Without norms in the blocks (Sec. 4.4), but with a LayerNorm of the first block's input, as in the authors' code.
using SasPNoNorm = SasPOf<ShapedAttention, FirstLayer<LayerNorm>>;

/// Without any norm (Fig. 1, top right).
using SasPNormFree = SasPOf<ShapedAttention, Identity>;

/// With W^V and W^P reparameterised around the identity in every layer, alpha I + beta D with trained gains (Fig. 16).
struct SasPReparam {
  int heads = 1;
  Mlp mlp;
  Reparameterised weights{.base = identity, .alpha = trainable(1), .beta = trainable(0.2)};

  constexpr Expr operator()(int layer, Expr x) const {
    using Attention = SelfAttention<AttentionMatrix::shaped, Reparameterised, Reparameterised>;
    return SasPOf<Attention>{{.heads = heads, .value = weights, .projection = weights}, mlp}(layer, x);
  }
};

}  // namespace simplx
