// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/blocks/norm_former.hpp
/// "NormFormer: Improved Transformer Pretraining with Extra Normalization" (Shleifer et al. 2021): three additions to
/// the Pre-LN block, each small, and a fourth for small models.
///
/// | addition            | parameter, at first               | where                                         |
/// |---------------------|-----------------------------------|-----------------------------------------------|
/// | HeadScale           | eta_h (gamma_h), H numbers, 1     | on the result of each head, before W^P        |
/// | post-attention norm | gain 1 and bias 0, of width d     | on the result of attention, before the sum    |
/// | FFN norm            | gain 1 and bias 0, of width F     | after the activation, before W2               |
/// | ResScale            | lambda (lambda_resid), d ones     | on the skip around the MLP                    |

#include <simplx/nn/attention.hpp>
#include <simplx/nn/mlp.hpp>
#include <simplx/nn/norm.hpp>
#include <simplx/nn/residual_scale.hpp>

namespace simplx::inline SIMPLX_TARGET {

///     X_out = lambda o X' + MLP(Norm2(X')),   X' = X + Norm(HeadScaleMHA(Norm1(X)))
///
///     HeadScaleMHA(x) = Concat_h(eta_h A_h V_h) W^P + b^P,   MLP(x) = Norm(f(x W1 + b1)) W2 + b2
///
/// Norms are LayerNorm and f is GELU unless others are given; every matrix has a bias, as in the authors' code.
/// Identity in the place of a norm leaves it out.
///
/// Source  Shleifer et al. 2021, Sec. 2.1; lambda, of ResScale: Sec. 2.2, its other forms: Sec. 4.2; norms of Q, K
///         and V, and what is left out: Sec. 5
template <class AttentionNorm = LayerNorm, class FeedForwardNorm = LayerNorm, class Activation = Gelu,
          class QueryKeyValueNorm = Identity>
struct NormFormerOf {
  int heads = 1;
  Index hidden = 0;  ///< four times the width of x unless given
  HeadScale head_scale = HeadScale::before_projection;
  ResidualScale mlp_residual_scale = ResidualScale::none;  ///< lambda
  ResidualScale attention_residual_scale = ResidualScale::none;

  constexpr Expr operator()(Expr x) const {
    using Attention = SelfAttention<AttentionMatrix::softmax, Linear, Linear, AttentionNorm, QueryKeyValueNorm>;
    // The attention ends with AttentionNorm, after W^P and b^P, and scales its heads; the MLP has FeedForwardNorm
    // after its activation: the sums below are then those of Pre-LN.
    const Attention attention{.heads = heads, .query_key_bias = true, .value = {.bias = true},
                              .projection = {.bias = true}, .head_scale = head_scale};
    const MlpOf<Activation, FeedForwardNorm> mlp{.hidden = hidden, .bias = true};

    auto y = residual_scaled(attention_residual_scale, "attention_residual_scale", x)
           + named("attention", attention)(named("norm1", LayerNorm{})(x));
    return residual_scaled(mlp_residual_scale, "mlp_residual_scale", y)
         + named("mlp", mlp)(named("norm2", LayerNorm{})(y));
  }
};

using NormFormer = NormFormerOf<>;

/// For the rows of Table 4, which start from NormFormer with ResScale, set mlp_residual_scale as well; its row without
/// ResScale is NormFormer itself. Squared ReLU: Sec. 2.2 and Table 2.
using NormFormerNoPostAttentionNorm = NormFormerOf<Identity>;
using NormFormerNoFfnNorm = NormFormerOf<LayerNorm, Identity>;
using NormFormerQkvNorm = NormFormerOf<LayerNorm, LayerNorm, Gelu, LayerNorm>;
using NormFormerRelu2 = NormFormerOf<LayerNorm, LayerNorm, ReluSquared>;

}  // namespace simplx
