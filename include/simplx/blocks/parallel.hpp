// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/blocks/parallel.hpp
/// The parallel block: Eq. (7) of "Simplifying Transformer Blocks" (He & Hofmann 2024) with all gains one.

#include <simplx/nn/attention.hpp>
#include <simplx/nn/mlp.hpp>
#include <simplx/nn/norm.hpp>

namespace simplx::inline SIMPLX_TARGET {

///     X_out = X + MHA(N) + MLP(N),   N = Norm(X)
template <class Attention, class Norm = RmsNorm, class FeedForward = Mlp>
struct ParallelOf {
  Attention attention;
  FeedForward mlp;
  Norm norm{};

  constexpr Expr operator()(Expr x) const {
    auto n = named("norm1", norm)(x);  // used twice, computed once
    return x + named("attention", attention)(n) + named("mlp", mlp)(n);
  }
};

using Parallel = ParallelOf<MultiHeadAttention>;

}  // namespace simplx
