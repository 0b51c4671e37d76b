// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/blocks/v_skip_init.hpp
/// Value-SkipInit (He et al. 2023) as "Simplifying Transformer Blocks" (He & Hofmann 2024, Sec. 4.1) compares with
/// it: no skip around attention, whose matrix is pulled to the identity instead.

#include <simplx/nn/attention.hpp>
#include <simplx/nn/mlp.hpp>
#include <simplx/nn/norm.hpp>

namespace simplx::inline SIMPLX_TARGET {

///     X_out = alpha_FF X' + beta_FF MLP(Norm2(X')),   X' = beta_SA Attention(Norm1(X))
///
/// with the matrix of Eq. (4), alpha I + beta A (AttentionMatrix::skip_init), or that of Eq. (5), alpha I + beta A -
/// gamma C (AttentionMatrix::shaped), with which Fig. 2 shows this block. W^V and W^P are trained matrices (d, d),
/// orthogonal at first.
template <AttentionMatrix matrix, class NormType = RmsNorm, class MlpType = Mlp>
struct VSkipInitOf {
  int heads = 1;
  MlpType mlp;
  Mask mask = Mask::causal;
  double mlp_gain = 0.1;  ///< initial beta_FF
  NormType norm{};

  constexpr Expr operator()(Expr x) const {
    const Linear orthogonal_map{.init = orthogonal};
    const SelfAttention<matrix, Linear, Linear> attention{
        .heads = heads, .mask = mask, .value = orthogonal_map, .projection = orthogonal_map};
    auto y = scalar("attention_gain", ones) * named("attention", attention)(named("norm1", norm)(x));
    return scalar("mlp_skip", ones) * y
         + scalar("mlp_gain", constant(mlp_gain)) * named("mlp", mlp)(named("norm2", norm)(y));
  }
};
template <AttentionMatrix matrix>
using VSkipInit = VSkipInitOf<matrix>;

}  // namespace simplx
