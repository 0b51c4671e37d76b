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
/// with shaped attention, W^V = alpha_V W0^V + beta_V D^V and W^P likewise. The gains of Fig. 3 are fixed; those of
/// Fig. 4 are trained: {.weights = {orthogonal, trainable(1), trainable(0.2)}}.
struct ShapedReparam {
  int heads = 1;
  Mlp mlp;
  Reparameterised weights{.base = orthogonal, .alpha = fixed_at(1), .beta = fixed_at(0.2)};

  constexpr Expr operator()(Expr x) const {
    const SelfAttention<AttentionMatrix::shaped, Reparameterised, Reparameterised> attention{
        .heads = heads, .value = weights, .projection = weights};
    x = scalar("attention_gain", ones) * named("attention", attention)(named("norm1", RmsNorm{})(x));
    return scalar("mlp_skip", ones) * x
         + scalar("mlp_gain", constant(0.1)) * named("mlp", mlp)(named("norm2", RmsNorm{})(x));
  }
};

}  // namespace simplx
