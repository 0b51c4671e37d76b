// SPDX-License-Identifier: MIT
#pragma once

/// Stochastic volatility (the Stan user's guide; Kim, Shephard and Chib 1998), its log posterior up to a constant:
///
///     y_t ~ N(0, exp(h_t / 2)),   h_1 ~ N(mu, sigma / sqrt(1 - phi^2)),   h_t ~ N(mu + phi (h_{t-1} - mu), sigma)
///     mu ~ Cauchy(0, 10),   sigma ~ Cauchy(0, 5),   phi ~ U(-1, 1)

#include <simplx/differentiate/function.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/reduce.hpp>
#include <simplx/ops/rows.hpp>

namespace functions {
using namespace simplx;

struct StochasticVolatility {
  constexpr Expr operator()() const {
    auto y = input("y", rows_of(Axis::tokens, 1)), h = variable("h", rows_of(Axis::tokens, 1));
    auto mu = variable("mu", fixed_shape(1, 1)), phi = variable("phi", fixed_shape(1, 1));
    auto sigma = variable("sigma", fixed_shape(1, 1));
    // -2 log density, where h_1 counts at first as if it came after h_0 = 0.
    auto deviance = h + square(y) * exp(-h) + square((h - mu - phi * (shift(h, 1) - mu)) / sigma) + 2.0 * log(sigma);
    auto first = first_of_sequence(h) - mu;
    auto rest = 1.0 - square(phi);
    auto started = square((first + phi * mu) / sigma) - rest * square(first / sigma) + log(rest);
    return 0.5 * (sum(started) - sum(deviance)) - log1p(square(mu / 10.0)) - log1p(square(sigma / 5.0));
  }
};

}  // namespace functions
