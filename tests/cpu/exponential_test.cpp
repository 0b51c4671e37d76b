// SPDX-License-Identifier: MIT
#include <simplx/cpu/exponential.hpp>

#include <cpu/sweep.hpp>

#include <doctest/doctest.h>

using namespace test;

TEST_SUITE_BEGIN("cpu/exponential");

namespace {

constexpr auto exp_of = [](auto x) { return simplx::exp(x); };
constexpr auto sigmoid_of = [](auto x) { return simplx::sigmoid(x); };
constexpr auto tanh_of = [](auto x) { return simplx::tanh(x); };
constexpr auto true_exp = [](long double x) { return std::exp(x); };
constexpr auto true_tanh = [](long double x) { return std::tanh(x); };
constexpr auto true_sigmoid = [](long double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
};

}  // namespace

TEST_CASE("exp of floats is within 9e-8 over its whole range") {
  for (const double reach : {1.0, 87.3}) {
    const Errors e = errors_of(sweep<float>(-reach, reach), exp_of, true_exp);
    CHECK(e.relative < 9e-8);
    CHECK(e.different + e.misplaced == 0);
  }
}

TEST_CASE("exp of floats is clamped to normal numbers, and exact at zero") {
  CHECK(simplx::exp(0.0f) == 1.0f);
  CHECK(simplx::exp(-1000.0f) > 1e-38f);
  CHECK(simplx::exp(-1000.0f) < 2e-38f);
  CHECK(std::isfinite(simplx::exp(1000.0f)));
  CHECK(simplx::exp(-INFINITY) == simplx::exp(-1000.0f));
  CHECK(simplx::exp(INFINITY) == simplx::exp(1000.0f));
}

TEST_CASE("exp of NaN is NaN in its lane alone, so that a broken loss is seen") {
  const float nan = std::nanf("");
  CHECK(std::isnan(simplx::exp(nan)));
  Vec<float> v = splat<Vec<float>>(1.0f);
  v[1] = nan;
  const Vec<float> y = simplx::exp(v);
  CHECK(y[0] == simplx::exp(1.0f));
  CHECK(std::isnan(static_cast<float>(y[1])));
  CHECK(y[2] == y[0]);
}

TEST_CASE("exp of doubles is within 1.1 ulps, subnormal results too") {
  for (const auto& points : {sweep<double>(-1, 1), sweep<double>(-745, 709.7), sweep<double>(-745.2, -708)}) {
    const Errors e = errors_of(points, exp_of, true_exp);
    CHECK(e.ulps < 1.1);
    CHECK(e.different + e.misplaced == 0);
  }
}

TEST_CASE("exp of doubles overflows and vanishes where std::exp does") {
  const Errors e = errors_of(corners<double>(), exp_of, true_exp);
  CHECK(e.ulps < 1.1);
  CHECK(e.different + e.misplaced == 0);
  CHECK(simplx::exp(0.0) == 1);
  CHECK(simplx::exp(1e300) == INFINITY);
  CHECK(simplx::exp(-1e300) == 0);
}

TEST_CASE_TEMPLATE("sigmoid is right far out on the left as well", S, float, double) {
  for (const auto& points : {sweep<S>(-4, 4), sweep<S>(sizeof(S) == 4 ? -87 : -745, 100)}) {
    const Errors e = errors_of(points, sigmoid_of, true_sigmoid);
    if (sizeof(S) == 4) CHECK(e.relative < 1.7e-7);
    CHECK(e.ulps < (sizeof(S) == 4 ? 2.4 : 2.3));
    CHECK(e.different + e.misplaced == 0);
  }
}

TEST_CASE_TEMPLATE("sigmoid at its corners", S, float, double) {
  const Errors e = errors_of(corners<S>(), sigmoid_of, true_sigmoid);
  CHECK(e.absolute < 1e-7);
  CHECK(e.different + e.misplaced == 0);
  CHECK(simplx::sigmoid(S(0)) == S(0.5));
  CHECK(simplx::sigmoid(S(INFINITY)) == 1);
  CHECK(simplx::sigmoid(S(-INFINITY)) >= 0);
  CHECK(simplx::sigmoid(S(-INFINITY)) < 2e-38);
}

TEST_CASE_TEMPLATE("tanh keeps its relative accuracy near zero", S, float, double) {
  for (const auto& points : {sweep<S>(-1, 1), sweep<S>(-25, 25)}) {
    const Errors e = errors_of(points, tanh_of, true_tanh);
    if (sizeof(S) == 4) CHECK(e.relative < 1.7e-7);
    CHECK(e.ulps < 2.6);
    CHECK(e.different + e.misplaced == 0);
  }
}

TEST_CASE_TEMPLATE("tanh at its corners: -0, subnormal numbers, exactly 1 far out", S, float, double) {
  const Errors e = errors_of(corners<S>(), tanh_of, true_tanh);
  CHECK(e.ulps < 2.6);
  CHECK(e.different + e.misplaced == 0);
  CHECK(simplx::tanh(S(30)) == 1);
  CHECK(simplx::tanh(S(-INFINITY)) == -1);
}

TEST_SUITE_END();
