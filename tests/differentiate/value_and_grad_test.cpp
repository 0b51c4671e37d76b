// SPDX-License-Identifier: MIT
#include <simplx/differentiate/value_and_grad.hpp>

#include <simplx/ops/functions.hpp>
#include <simplx/ops/matmul.hpp>

#include <doctest/doctest.h>

using namespace simplx;

namespace {
inline constexpr auto rosenbrock = [] {
  auto x = variable("x", fixed_shape(1, 1)), y = variable("y", fixed_shape(1, 1));
  return square(1.0 - x) + 100.0 * square(y - square(x));
};
}  // namespace

TEST_SUITE_BEGIN("differentiate/value_and_grad");

TEST_CASE("a value and its gradients") {
  auto result = value_and_grad<rosenbrock>(arg<"x">(-1.2), arg<"y">(1.0));
  CHECK(result.value == doctest::Approx(24.2));
  CHECK(result.gradient<"x">()(0) == doctest::Approx(-215.6));
  CHECK(result.gradient<"y">()(0) == doctest::Approx(-88));
}

TEST_CASE("the gradient of a temporary is a copy") {
  const auto g = value_and_grad<rosenbrock>(arg<"x">(-1.2), arg<"y">(1.0)).gradient<"x">();
  CHECK(g(0) == doctest::Approx(-215.6));
}

TEST_SUITE_END();
