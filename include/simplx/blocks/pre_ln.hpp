// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/blocks/pre_ln.hpp
/// The Pre-LN block: Eq. (1) of "Simplifying Transformer Blocks" (He & Hofmann 2024) with all four gains one.

#include <simplx/nn/attention.hpp>
#include <simplx/nn/mlp.hpp>
#include <simplx/nn/norm.hpp>

namespace simplx::inline SIMPLX_TARGET {

///     X_out = X' + MLP(Norm2(X')),   X' = X + MHA(Norm1(X))
template <class Attention, class Norm = RmsNorm, class FeedForward = Mlp>
struct PreLnOf {
  Attention attention;
  FeedForward mlp;
  Norm norm{};  ///< the kind of both; norm1 and norm2 have parameters of their own

  constexpr Expr operator()(Expr x) const {
    auto y = x + named("attention", attention)(named("norm1", norm)(x));
    return y + named("mlp", mlp)(named("norm2", norm)(y));
  }
};

using PreLn = PreLnOf<MultiHeadAttention>;

/// Without values and projections: V = Norm1(X), W^P = I (Fig. 23).
using PreLnIdentity = PreLnOf<SelfAttention<AttentionMatrix::softmax>>;

/// With W^V = alpha_V I + beta_V D^V and W^P = alpha_P I + beta_P D^P, Eq. (6), gains trained (App. C, Fig. 22).
struct PreLnReparam {
  int heads = 1;
  Mlp mlp;
  /// The kind of both; each has its own alpha, beta and D.
  Reparameterised weights{.base = identity, .alpha = trainable(1), .beta = trainable(0.2)};

  constexpr Expr operator()(Expr x) const {
    using Attention = SelfAttention<AttentionMatrix::softmax, Reparameterised, Reparameterised>;
    return PreLnOf<Attention>{{.heads = heads, .value = weights, .projection = weights}, mlp}(x);
  }
};

/// With LayerNorm, GELU and a bias on every matrix: the baseline of NormFormer (Shleifer et al. 2021).
struct PreLnBiased {
  int heads = 1;
  Index hidden = 0;  ///< four times the width of x unless given

  constexpr Expr operator()(Expr x) const {
    const MultiHeadAttention attention{
        .heads = heads, .query_key_bias = true, .value = {.bias = true}, .projection = {.bias = true}};
    return PreLnOf<MultiHeadAttention, LayerNorm, MlpOf<Gelu>>{attention, {.hidden = hidden, .bias = true}}(x);
  }
};

}  // namespace simplx
