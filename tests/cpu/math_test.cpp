// SPDX-License-Identifier: MIT
#include <simplx/cpu/math.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace simplx;

TEST_SUITE_BEGIN("cpu/math");

TEST_CASE("exp of floats is within 1.5e-7 of the truth over its whole range") {
  double worst = 0;
  for (double x = -87.3; x < 88.3; x += 0.00137) {
    const float argument = static_cast<float>(x);
    const double truth = std::exp(static_cast<double>(argument));
    worst = std::max(worst, std::abs(static_cast<double>(exp(argument)) - truth) / truth);
  }
  CHECK(worst < 1.5e-7);
}

TEST_CASE("a lane and a single float give the same bits") {
  for (int i = 0; i < 400; ++i) {
    Vec<float> v{};
    for (int l = 0; l < lanes<float>; ++l) v[l] = static_cast<float>(i * lanes<float> + l) * 0.013f - 40;
    const Vec<float> y = exp(v);
    for (int l = 0; l < lanes<float>; ++l) REQUIRE(y[l] == exp(static_cast<float>(v[l])));
  }
}

TEST_CASE("exp is clamped to normal numbers, and exact at zero") {
  CHECK(exp(0.0f) == 1.0f);
  CHECK(exp(-1000.0f) > 0);
  CHECK(exp(-1000.0f) < 2e-38f);
  CHECK(std::isfinite(exp(1000.0f)));
}

TEST_CASE("exp of NaN is NaN, so that a broken loss is seen") {
  const float nan = std::nanf("");
  CHECK(std::isnan(exp(nan)));
  Vec<float> v = splat<Vec<float>>(1.0f);
  v[1] = nan;
  const Vec<float> y = exp(v);
  CHECK(y[0] == exp(1.0f));
  CHECK(std::isnan(static_cast<float>(y[1])));
  CHECK(y[2] == y[0]);
}

TEST_CASE("exp takes infinities for the ends of its range") {
  CHECK(exp(-INFINITY) == exp(-1000.0f));
  CHECK(exp(INFINITY) == exp(1000.0f));
}

TEST_CASE("exp of doubles is that of the standard library") {
  const Vec<double> y = exp(splat<Vec<double>>(0.7));
  CHECK(y[0] == std::exp(0.7));
  CHECK(y[lanes<double> - 1] == std::exp(0.7));
}

TEST_CASE_TEMPLATE("sqrt is correctly rounded in every lane", S, float, double) {
  for (int i = 0; i < 100; ++i) {
    Vec<S> v{};
    for (int l = 0; l < lanes<S>; ++l) v[l] = static_cast<S>(i * 7 + l) / S(3);
    const Vec<S> y = sqrt(v);
    for (int l = 0; l < lanes<S>; ++l) REQUIRE(y[l] == std::sqrt(static_cast<S>(v[l])));
  }
}

TEST_SUITE_END();
