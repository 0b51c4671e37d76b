// SPDX-License-Identifier: MIT
#pragma once

/// Squared error of a perceptron with one hidden layer:
///
///     mean (tanh(x W + b) V + c - y)^2

#include <simplx/differentiate/function.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/reduce.hpp>

namespace functions {
using namespace simplx;

struct Perceptron {
  Index inputs, units, outputs;

  constexpr Expr operator()() const {
    auto x = input("x", rows_of(Axis::batch, inputs)), y = input("y", rows_of(Axis::batch, outputs));
    auto W = variable("W", fixed_shape(inputs, units)), V = variable("V", fixed_shape(units, outputs));
    auto hidden = tanh(x * W + variable("b", fixed_shape(1, units)));
    return mean(square(hidden * V + variable("c", fixed_shape(1, outputs)) - y));
  }
};

}  // namespace functions
