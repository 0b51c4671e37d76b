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
    auto d = h - mu, noise = d - phi * shift(d, 1), first = first_of_sequence(d);
    auto observed = -0.5 * (h + square(y) * exp(-h));
    auto moved = -0.5 * square(noise / sigma) - log(sigma);                        // all h_t as if N(.., sigma)
    auto started = 0.5 * square(phi / sigma * first) + 0.5 * log1p(-square(phi));  // what that misses of h_1
    return sum(observed + moved) + sum(started) - log1p(square(mu / 10.0)) - log1p(square(sigma / 5.0));
  }
};

}  // namespace functions
