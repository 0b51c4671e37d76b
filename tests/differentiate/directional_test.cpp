// SPDX-License-Identifier: MIT
#include <simplx/differentiate/directional.hpp>

#include <simplx/ops/functions.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/reduce.hpp>
#include <simplx/ops/stop_gradient.hpp>

#include <doctest/doctest.h>

#include <limits>

using namespace simplx;

namespace {
inline constexpr auto rosenbrock = [] {
  auto x = variable("x", fixed_shape(1, 1)), y = variable("y", fixed_shape(1, 1));
  return square(1.0 - x) + 100.0 * square(y - square(x));
};
inline constexpr auto cubes = [] {
  const Expr x = variable("x", fixed_shape(1, 3));
  return sum(x * square(x));
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

TEST_CASE("points and directions of containers") {
  constexpr auto& f = cubes;
  Directional<f> d, by_eigen;
  const std::vector<double> x{1, -2, 3}, v{0.5, 1, -1};
  d.set<"x">(x, v);
  using Row = Eigen::Map<const Eigen::RowVectorXd>;
  by_eigen.set<"x">(Row(x.data(), 3), Row(v.data(), 3));
  d.hvp(), by_eigen.hvp();
  CHECK(d.hessian_product<"x">() == by_eigen.hessian_product<"x">());
  CHECK(d.hessian_product<"x">()(2) == doctest::Approx(-18));
  CHECK_THROWS_WITH_AS(d.set<"x">(x, std::vector<double>{1, 2}), doctest::Contains("another size"), Error);
}

TEST_CASE("what the gradient stops at has no derivative along a direction either; the largest of none is minus infinity") {
  static constexpr auto stops = [] {
    const Expr x = variable("x", fixed_shape(1, 3));
    return sum(stop_gradient(square(x)) * x);
  };
  Directional<stops> d;
  d.set<"x">(Eigen::RowVector3d(1, 2, 3), Eigen::RowVector3d(1, 0.5, -1));
  d.jvp();
  CHECK(d.tangent()(0) == doctest::Approx(1 + 0.5 * 4 - 9));
  d.hvp();
  CHECK(d.hessian_product<"x">().isZero());
  static constexpr auto largest = [] { return max(variable("x", rows_of(Axis::batch, 3))); };
  Directional<largest> none;
  none.set<"x">(Eigen::MatrixXd(0, 3), Eigen::MatrixXd(0, 3));
  none.jvp();
  CHECK(none.output()(0) == -std::numeric_limits<double>::infinity());
}

TEST_CASE("what is read too early says which of its own functions come before") {
  Directional<rosenbrock> d;
  d.set<"x">(-1.2, 2.0).set<"y">(1.0, 3.0);
  const auto says = [](auto read, const char* what) { CHECK_THROWS_WITH_AS(read(), doctest::Contains(what), Error); };
  says([&] { d.output(); }, "output() without a jvp() or hvp()\n  hint: call jvp() or hvp() before");
  says([&] { d.tangent(); }, "tangent() without a jvp() or hvp()");
  says([&] { d.gradient<"x">(); }, "gradient() without an hvp()\n  hint: call hvp() before");
  d.jvp();
  CHECK(d.output()(0) == doctest::Approx(24.2));
  says([&] { d.gradient<"x">(); }, "gradient() without an hvp()");
  says([&] { d.hessian_product<"y">(); }, "hessian_product() without an hvp()");
  Directional<rosenbrock> other = std::move(d);
  CHECK(other.output()(0) == doctest::Approx(24.2));
  says([&] { d.output(); }, "this function was moved from");
}

TEST_SUITE_END();
