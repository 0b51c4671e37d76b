// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/blocks/sas.hpp
/// The SAS block (Fig. 10 of "Simplifying Transformer Blocks", He & Hofmann 2024; Eqs. (12) and (13)): Eq. (1) without
/// the skip around attention, which is shaped, Eq. (5), and has no W^P and W^V, but for a W^V of the first layer, the
/// identity at first (App. C, Fig. 24). Layers count from 0.
///
/// Eq. (12) has no beta_SA, which App. D.1 trains; alpha_FF is trained as in the authors' code.

#include <simplx/nn/attention.hpp>
#include <simplx/nn/mlp.hpp>
#include <simplx/nn/norm.hpp>

namespace simplx::inline SIMPLX_TARGET {

///     X_out = alpha_FF X' + beta_FF MLP(Norm2(X')),   X' = beta_SA ShapedAttention(Norm1(X))
template <class Attention, class Norm1 = RmsNorm, class Norm2 = RmsNorm, class FeedForward = Mlp>
struct SasOf {
  Attention attention;
  FeedForward mlp;
  Norm1 norm1{};
  Norm2 norm2{};
  double mlp_gain = 0.1;  ///< beta_FF at first

  constexpr Expr operator()(int layer, Expr x) const {
    auto n = named("norm1", at_layer(norm1, layer))(x);
    auto y = scalar("attention_gain", ones) * named("attention", attention.at(layer))(n);
    return scalar("mlp_skip", ones) * y
         + scalar("mlp_gain", constant(mlp_gain)) * named("mlp", mlp)(named("norm2", norm2)(y));
  }
};

using Sas = SasOf<ShapedAttention>;

/// Values are Norm1(X) in the first layer too.
using SasIdentityFirstValue = SasOf<SelfAttention<AttentionMatrix::shaped>>;

/// With the matrix of Value-SkipInit, Eq. (4), in each head: alpha_h I + beta_h A_h (Fig. 13).
using SasSkipInit = SasOf<SelfAttention<AttentionMatrix::skip_init, FirstLayer<Reparameterised>>>;

/// Without norms in the blocks, but with a LayerNorm of the first block's input, as in the authors' code.
using SasNoNorm = SasOf<ShapedAttention, FirstLayer<LayerNorm>, Identity>;

/// Without any norm.
using SasNormFree = SasOf<ShapedAttention, Identity, Identity>;

///     X_out = beta_FF MLP(Norm2(X')),   X' = beta_SA ShapedAttention(Norm1(X)),   leaky ReLU in the MLP (Fig. 25)
struct SasNoMlpSkip {
  ShapedAttention attention;
  MlpOf<LeakyRelu> mlp;

  constexpr Expr operator()(int layer, Expr x) const {
    auto y = scalar("attention_gain", ones) * named("attention", attention.at(layer))(named("norm1", RmsNorm{})(x));
    return scalar("mlp_gain", constant(0.1)) * named("mlp", mlp)(named("norm2", RmsNorm{})(y));
  }
};

}  // namespace simplx
