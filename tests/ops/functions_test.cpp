// SPDX-License-Identifier: MIT
#include <simplx/ops/functions.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

/// 19 columns: whole vectors of every width, and a remainder.
template <class F>
using Wide = test::OnTokens<F>;

constexpr Expr positive(Expr x) { return square(x) + 0.5; }  // so that roots and logarithms exist
constexpr Expr row(Expr x) { return vector("row", width(x), constant(0.7)); }

#define SIMPLX_CASE(name, expression)                                \
  struct name {                                                      \
    constexpr Expr operator()(Expr x) const { return expression; }   \
  }

SIMPLX_CASE(Exp, exp(x));
SIMPLX_CASE(Log, log(positive(x)));
SIMPLX_CASE(Log1p, log1p(positive(x)));
SIMPLX_CASE(SinCos, sin(x) * cos(2.0 * x));
SIMPLX_CASE(Tanh, tanh(x));
SIMPLX_CASE(Sigmoid, sigmoid(x));
SIMPLX_CASE(Softplus, softplus(x));
SIMPLX_CASE(Erf, erf(x));
SIMPLX_CASE(Roots, sqrt(positive(x)) + rsqrt(positive(x)));
SIMPLX_CASE(Powers, pow(positive(x), row(x)) + pow(x, 3.0) + square(x));
SIMPLX_CASE(Abs, abs(x) * x);
SIMPLX_CASE(Extremes, max(x, row(x)) + min(x, vector("other", width(x)) * x));
SIMPLX_CASE(Clamped, clamp(x, scalar("low", constant(-0.8)), scalar("high", constant(0.9))));
SIMPLX_CASE(Selected, select(x > row(x), square(x), x) + select(x < 0.0, x, vector("other", width(x))));
#undef SIMPLX_CASE

}  // namespace

TEST_SUITE_BEGIN("ops/functions");

TEST_CASE_TEMPLATE_DEFINE("derivatives of every order", T, derivatives) {
  static constexpr Wide<T> model{19};
  test::check_op<model>({.step = 0.01});
  CHECK(test::distance_to_reference<model, float>() < 1e-5);
}
TEST_CASE_TEMPLATE_INVOKE(derivatives, Exp, Log, Log1p, SinCos, Tanh, Sigmoid, Softplus, Erf, Roots, Powers, Abs,
                          Extremes, Clamped, Selected);

TEST_CASE("values and derivatives where functions have kinks") {
  CHECK(op<"abs">::d<0>(5.0, 0.0, 0.0) == 0);
  CHECK(op<"max">::d<0>(5.0, 1.0, 1.0, 1.0) == 2.5);
  CHECK(op<"max">::d<1>(5.0, 1.0, 1.0, 1.0) == 2.5);
  CHECK(op<"min">::d<0>(5.0, 1.0, 1.0, 2.0) == 5);
  CHECK(op<"min">::d<1>(5.0, 1.0, 1.0, 2.0) == 0);
  for (const double broken : {std::nan(""), -std::nan("")}) {
    CHECK(std::isnan(op<"max">::f(broken, 1.0)));
    CHECK(std::isnan(op<"max">::f(1.0, broken)));
    CHECK(std::isnan(op<"min">::f(broken, 1.0)));
    CHECK(std::isnan(op<"min">::f(1.0, broken)));
    const auto ones = splat<Vec<double>>(1), lanes = splat<Vec<double>>(broken);
    CHECK(std::isnan(sum(op<"max">::f(lanes, ones))));
    CHECK(std::isnan(sum(op<"min">::f(ones, lanes))));
  }
  CHECK(op<"clamp">::f(3.0, -1.0, 2.0) == 2);
  CHECK(op<"clamp">::d<0>(5.0, 2.0, 2.0, -1.0, 2.0) == 5);  // at the limit x still moves
  CHECK(op<"clamp">::d<2>(5.0, 2.0, 3.0, -1.0, 2.0) == 5);
  for (const double x : {1.0, 5.0}) {  // limits that are the wrong way round
    CHECK(op<"clamp">::f(x, 10.0, 3.0) == 3);
    CHECK(op<"clamp">::d<0>(5.0, 3.0, x, 10.0, 3.0) == 0);
    CHECK(op<"clamp">::d<1>(5.0, 3.0, x, 10.0, 3.0) == 0);
    CHECK(op<"clamp">::d<2>(5.0, 3.0, x, 10.0, 3.0) == 5);
  }
  CHECK(op<"relu">::f(Dual<double>(0, 1)).tangent == 0);
  CHECK(op<"relu">::f(Dual<double>(2, 1)).tangent == 1);
  CHECK(op<"greater">::f(2.0, 1.0) == 1);
  CHECK(op<"greater">::f(1.0, 1.0) == 0);
  CHECK(op<"pow">::d<1>(1.0, 0.0, 0.0, 2.0) == 0);
  CHECK(op<"pow">::d<0>(5.0, 1.0, 0.0, 0.0) == 0);  // x^0 is 1 everywhere, at 0 too
  const auto still = [](double x) { return Dual<double>(x); };
  const auto moving = [](double x) { return Dual<double>(x, 1); };
  CHECK(op<"pow">::d<0>(still(5), still(1), still(4), moving(0)).tangent == 1.25);  // p x^(p - 1) by p: 1 / x
  CHECK(op<"pow">::d<1>(still(5), still(1), moving(4), still(0)).tangent == 1.25);
}

TEST_CASE("softplus does not overflow, and its slope at 0 is one half") {
  static constexpr auto model = [] { return softplus(variable("x", rows_of(Axis::tokens, 1))); };
  Evaluation<model> run(Rows{.tokens = 3});
  std::ranges::copy(std::array{1000.0, -1000.0, 0.0}, run.input("x").begin());
  run.forward();
  CHECK(run.output()[0] == 1000);
  CHECK(run.output()[1] == 0);
  CHECK(run.output()[2] == doctest::Approx(std::log(2)));
  std::ranges::fill(run.output_gradient(), 1.0);
  run.backward();
  CHECK(run.input_gradient("x")[0] == 1);
  CHECK(run.input_gradient("x")[1] == 0);
  CHECK(run.input_gradient("x")[2] == 0.5);
  using Second = Dual<Dual<double>>;
  const Second zero({0, 1}, {1, 0});
  CHECK(op<"softplus">::f(zero).tangent.value == 0.5);
  CHECK(op<"softplus">::f(zero).tangent.tangent == 0.25);  // of max and abs, of which it is made, there is none
  CHECK(op<"softplus">::d<0>(Dual<double>(1), Dual<double>(), Dual<double>(0, 1)).tangent == 0.25);
}

TEST_SUITE_END();
