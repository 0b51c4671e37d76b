// SPDX-License-Identifier: MIT
#pragma once

/// The log likelihood of n samples under a mixture of K normal distributions:
///
///     sum_i log sum_k w_k / (sqrt(2 pi) s_k) exp(-((x_i - m_k) / s_k)^2 / 2)

#include <simplx/differentiate/function.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/softmax.hpp>

#include <numbers>

namespace functions {
using namespace simplx;

struct GaussianMixture {
  Index components;

  constexpr Expr operator()() const {
    const double root_of_two_pi = std::numbers::sqrt2 / std::numbers::inv_sqrtpi;
    auto x = input("x", rows_of(Axis::batch, 1));
    auto weights = variable("weights", fixed_shape(1, components));
    auto means = variable("means", fixed_shape(1, components));
    auto deviations = variable("deviations", fixed_shape(1, components));
    auto z = (x - means) / deviations;  // (samples, components)
    auto log_densities = log(weights / (root_of_two_pi * deviations)) - 0.5 * square(z);
    return sum(log_sum_exp(log_densities, Over::columns));
  }
};

}  // namespace functions
