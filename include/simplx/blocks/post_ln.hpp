// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/blocks/post_ln.hpp
/// The Post-LN block of "Attention Is All You Need" (Vaswani et al. 2017), which "NormFormer" (Shleifer et al. 2021,
/// Sec. 1 and Fig. 3) compares with: a norm after each sum. That of the last block closes the stack; no other follows.

#include <simplx/nn/attention.hpp>
#include <simplx/nn/mlp.hpp>
#include <simplx/nn/norm.hpp>

namespace simplx::inline SIMPLX_TARGET {

///     X_out = Norm2(X' + MLP(X')),   X' = Norm1(X + MHA(X))
///
/// with LayerNorm, GELU (of the second paper's Sec. 1) and a bias on every matrix.
struct PostLn {
  int heads = 1;
  Index hidden = 0;  ///< four times the width of x unless given

  constexpr Expr operator()(Expr x) const {
    const MultiHeadAttention attention{
        .heads = heads, .query_key_bias = true, .value = {.bias = true}, .projection = {.bias = true}};
    const MlpOf<Gelu> mlp{.hidden = hidden, .bias = true};
    auto y = named("norm1", LayerNorm{})(x + named("attention", attention)(x));
    return named("norm2", LayerNorm{})(y + named("mlp", mlp)(y));
  }
};

}  // namespace simplx
