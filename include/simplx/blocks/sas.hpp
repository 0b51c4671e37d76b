// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/blocks/sas.hpp
/// The SAS block (Fig. 10 of "Simplifying Transformer Blocks", He & Hofmann 2024): shaped attention without skip,
/// projection, and values, but for the first layer's value matrix (App. C, Fig. 24).

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
    x = scalar("attention_gain", ones) * named("attention", attention.at(layer))(n);
    return scalar("mlp_skip", ones) * x
         + scalar("mlp_gain", constant(mlp_gain)) * named("mlp", mlp)(named("norm2", norm2)(x));
  }
};

using Sas = SasOf<ShapedAttention>;

/// Values are Norm1(X) in the first layer too.
using SasIdentityFirstValue = SasOf<SelfAttention<AttentionMatrix::shaped>>;

/// With alpha_h I + beta_h A_h as the matrix, Eq. (4) (Fig. 13).
using SasSkipInit = SasOf<SelfAttention<AttentionMatrix::skip_init, FirstLayer<Reparameterised>>>;

/// Without norms, except for a LayerNorm of the first block's input, as in the authors' code; without any.
using SasNoNorm = SasOf<ShapedAttention, FirstLayer<LayerNorm>, Identity>;
using SasNormFree = SasOf<ShapedAttention, Identity, Identity>;

///     X_out = beta_FF MLP(Norm2(X')),   X' = beta_SA ShapedAttention(Norm1(X)),   leaky ReLU in the MLP (Fig. 25)
struct SasNoMlpSkip {
  ShapedAttention attention;
  MlpOf<LeakyRelu> mlp;

  constexpr Expr operator()(int layer, Expr x) const {
    x = scalar("attention_gain", ones) * named("attention", attention.at(layer))(named("norm1", RmsNorm{})(x));
    return scalar("mlp_gain", constant(0.1)) * named("mlp", mlp)(named("norm2", RmsNorm{})(x));
  }
};

}  // namespace simplx
