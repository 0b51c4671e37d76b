// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/blocks/pre_ln.hpp
/// The Pre-LN block: Eq. (1) of "Simplifying Transformer Blocks" (He & Hofmann 2024) with all four gains one.

#include <simplx/nn/attention.hpp>
#include <simplx/nn/mlp.hpp>
#include <simplx/nn/norm.hpp>

namespace simplx::inline SIMPLX_TARGET {

///     X_out = X' + MLP(Norm2(X')),   X' = X + MHA(Norm1(X))
template <class Attention>
struct PreLnOf {
  Attention attention;
  Mlp mlp;

  constexpr Expr operator()(Expr x) const {
    x = x + named("attention", attention)(named("norm1", RmsNorm{})(x));
    return x + named("mlp", mlp)(named("norm2", RmsNorm{})(x));
  }
};

using PreLn = PreLnOf<MultiHeadAttention>;

/// Without values and projections: V = Norm1(X), W^P = I (Fig. 23).
using PreLnIdentity = PreLnOf<SelfAttention<AttentionMatrix::softmax>>;

/// With W^V and W^P reparameterised around the identity, alpha I + beta D with trained gains (Fig. 22).
struct PreLnReparam {
  int heads = 1;
  Mlp mlp;
  Reparameterised weights{.base = identity, .alpha = trainable(1), .beta = trainable(0.2)};

  constexpr Expr operator()(Expr x) const {
    using Attention = SelfAttention<AttentionMatrix::softmax, Reparameterised, Reparameterised>;
    return PreLnOf<Attention>{{.heads = heads, .value = weights, .projection = weights}, mlp}(x);
  }
};

}  // namespace simplx
