// SPDX-License-Identifier: MIT
#pragma once

/// Least squares: |A w - y|^2 of n samples, the rows of A.

#include <simplx/differentiate/function.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/reduce.hpp>

namespace functions {
using namespace simplx;

struct LeastSquares {
  Index features;

  constexpr Expr operator()() const {
    auto A = input("A", rows_of(Axis::batch, features)), y = input("y", rows_of(Axis::batch, 1));
    auto w = variable("w", fixed_shape(features, 1));
    return sum(square(A * w - y));
  }
};

}  // namespace functions
