// SPDX-License-Identifier: MIT
#pragma once

/// Logistic regression: the negative log likelihood of labels y of 0 and 1, sum log(1 + exp(z)) - y z with z = X w + b.

#include <simplx/differentiate/function.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/reduce.hpp>

namespace functions {
using namespace simplx;

struct LogisticRegression {
  Index features;

  constexpr Expr operator()() const {
    auto X = input("X", rows_of(Axis::batch, features)), y = input("y", rows_of(Axis::batch, 1));
    auto z = X * variable("w", fixed_shape(features, 1)) + variable("b", fixed_shape(1, 1));
    return sum(softplus(z) - y * z);
  }
};

}  // namespace functions
