// SPDX-License-Identifier: MIT
#include <simplx/differentiate/directional.hpp>

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

TEST_SUITE_BEGIN("differentiate/directional");

TEST_CASE("Jacobian and Hessian along a direction") {
  Directional<rosenbrock> d;
  d.set<"x">(-1.2, 2.0).set<"y">(1.0, 3.0);
  d.jvp();
  CHECK(d.tangent()(0) == doctest::Approx(-215.6 * 2 - 88 * 3));
  d.hvp();
  CHECK(d.gradient<"x">()(0) == doctest::Approx(-215.6));
  // H = [[1200 x^2 - 400 y + 2, -400 x], [-400 x, 200]]
  CHECK(d.hessian_product<"x">()(0) == doctest::Approx((1200 * 1.44 - 400 + 2) * 2 + 480 * 3));
  CHECK(d.hessian_product<"y">()(0) == doctest::Approx(480 * 2 + 200 * 3));
}

TEST_SUITE_END();
