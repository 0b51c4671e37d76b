// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/blocks/pre_ln.hpp
/// The Pre-LN block: Eq. (1) of "Simplifying Transformer Blocks" with all four gains equal to one.

#include <simplx/nn/attention.hpp>
#include <simplx/nn/mlp.hpp>
#include <simplx/nn/norm.hpp>

namespace simplx {

///     X_out = X' + MLP(Norm(X')),   X' = X + MHA(Norm(X))
struct PreLn {
  MultiHeadAttention attention;
  Mlp mlp;

  constexpr Expr operator()(Expr x) const {
    x = x + named("attention", attention)(named("norm1", RmsNorm{})(x));
    return x + named("mlp", mlp)(named("norm2", RmsNorm{})(x));
  }
};

}  // namespace simplx
