// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/nn/head_norm.hpp
/// A norm within each head, as of queries and keys: QK-norm.

#include <simplx/ops/elementwise.hpp>
#include <simplx/ops/functions.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/repeat.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// gain * x_h / sqrt(mean x_h^2 + epsilon) for each column block x_h of x; all heads have one gain, a number for each
/// of their columns.
///
/// Shapes  x (rows, heads * d_k) -> the same; parameter gain (1, d_k)
/// Errors  does not compile if heads do not divide the columns: rule "heads"
/// Source  Dehghani et al. 2023, "Scaling Vision Transformers to 22 Billion Parameters", Sec. 2; with RMSNorm: Qwen3
struct HeadNorm {
  int heads = 1;
  double epsilon = 1e-6;

  constexpr Expr operator()(Expr x) const {
    const Index columns = width(x);
    if (heads < 1 || columns % heads != 0) return refuse("heads", x, heads, columns);
    const Index own = columns / heads;
    const Expr mean_square = sum_of_repeated(square(x), own) / static_cast<double>(own);  // (rows, heads)
    const Expr scale = rsqrt(mean_square + hyper("epsilon", epsilon));
    return x * repeat_columns(scale, own) * repeat_columns(vector("gain", own), heads, own);
  }
};

}  // namespace simplx
