// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/blocks/shaped_reparam.hpp
/// Shaped attention without skip whose values and projections move little from where they start: Eq. (6) of
/// "Simplifying Transformer Blocks" (He & Hofmann 2024).

#include <simplx/nn/attention.hpp>
#include <simplx/nn/mlp.hpp>
#include <simplx/nn/norm.hpp>

namespace simplx::inline SIMPLX_TARGET {

///     X_out = alpha_FF X' + beta_FF MLP(Norm2(X')),   X' = beta_SA Attention(Norm1(X))
///
/// with shaped attention and Eq. (6): W^V = alpha_V W0^V + beta_V D^V, W^P = alpha_P W0^P + beta_P D^P. W0 (d, d) stays
/// as drawn, D (d, d) starts at zero. In Fig. 3 the gains are fixed and W0 is orthogonal or the identity. With trained
/// gains, {.weights = {identity, trainable(1), trainable(0.2)}} is Fig. 4, orthogonal in its place Fig. 21.
struct ShapedReparam {
  int heads = 1;
  Mlp mlp;
  /// The kind of both; each has its own alpha, beta and D.
  Reparameterised weights{.base = orthogonal, .alpha = fixed_at(1), .beta = fixed_at(0.2)};

  constexpr Expr operator()(Expr x) const {
    const SelfAttention<AttentionMatrix::shaped, Reparameterised, Reparameterised> attention{
        .heads = heads, .value = weights, .projection = weights};
    auto y = scalar("attention_gain", ones) * named("attention", attention)(named("norm1", RmsNorm{})(x));
    return scalar("mlp_skip", ones) * y
         + scalar("mlp_gain", constant(0.1)) * named("mlp", mlp)(named("norm2", RmsNorm{})(y));
  }
};

}  // namespace simplx
