// SPDX-License-Identifier: MIT
#include <simplx/cpu/math.hpp>

#include <doctest/doctest.h>

using namespace simplx;

TEST_SUITE_BEGIN("cpu/math");

TEST_CASE_TEMPLATE("one include gives every function, of numbers and of vectors", S, float, double) {
  const auto check = [](auto x) {
    const auto circle = simplx::sin(x) * simplx::sin(x) + simplx::cos(x) * simplx::cos(x);
    const auto inverse = simplx::exp(simplx::log(simplx::abs(-x))) / x;
    const auto logistic = 2 * simplx::sigmoid(2 * x) - simplx::tanh(x);
    const auto shifted = simplx::log1p(x) / simplx::log(x + 1);
    const auto odd = simplx::erf(x) / -simplx::erf(-x);
    const auto power = simplx::pow(x, S(2)) / (x * x);
    const auto root = simplx::rsqrt(x) * simplx::sqrt(x);
    return circle + inverse + logistic + shifted + odd + power + root;
  };
  CHECK(std::abs(check(S(0.7)) - 7) < 3e-6);
  CHECK(std::abs(check(splat<Vec<S>>(S(0.7)))[1] - 7) < 3e-6);
}

TEST_SUITE_END();
