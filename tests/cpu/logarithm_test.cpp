// SPDX-License-Identifier: MIT
#include <simplx/cpu/logarithm.hpp>

#include <cpu/sweep.hpp>

#include <doctest/doctest.h>

using namespace test;

TEST_SUITE_BEGIN("cpu/logarithm");

namespace {

constexpr auto log_of = [](auto x) { return simplx::log(x); };
constexpr auto log1p_of = [](auto x) { return simplx::log1p(x); };
constexpr auto true_log = [](long double x) { return std::log(x); };
constexpr auto true_log1p = [](long double x) { return std::log1p(x); };

}  // namespace

TEST_CASE_TEMPLATE("log is right near 1, over all powers, and of subnormal numbers", S, float, double) {
  std::vector<S> powers;
  for (S x = std::numeric_limits<S>::denorm_min(); x < std::numeric_limits<S>::max() / 2; x *= S(1.37)) {
    powers.push_back(x = std::max(x, std::nextafter(x, S(1e9))));
  }
  for (const auto& points : {sweep<S>(0.99, 1.01), sweep<S>(0.5, 2), sweep<S>(0, 100), powers}) {
    const Errors e = errors_of(points, log_of, true_log);
    if (sizeof(S) == 4) CHECK(e.relative < 8.1e-8);
    CHECK(e.ulps < 1.3);
    CHECK(e.different + e.misplaced == 0);
  }
}

TEST_CASE_TEMPLATE("log at its corners: 0, negative numbers, infinity, NaN", S, float, double) {
  const Errors e = errors_of(corners<S>(), log_of, true_log);
  CHECK(e.ulps < 1.3);
  CHECK(e.different + e.misplaced == 0);
  CHECK(simplx::log(S(0)) == -S(INFINITY));
  CHECK(simplx::log(S(1)) == 0);
  CHECK(std::isnan(simplx::log(S(-1))));
}

TEST_CASE_TEMPLATE("log1p keeps its relative accuracy near zero", S, float, double) {
  for (const auto& points : {sweep<S>(-0.1, 0.1), sweep<S>(-0.9999, 1), sweep<S>(0, 1e5)}) {
    const Errors e = errors_of(points, log1p_of, true_log1p);
    if (sizeof(S) == 4) CHECK(e.relative < 1.4e-7);
    CHECK(e.ulps < 1.7);
    CHECK(e.different + e.misplaced == 0);
  }
}

TEST_CASE_TEMPLATE("log1p at its corners: -1, -0, infinity, NaN", S, float, double) {
  const Errors e = errors_of(corners<S>(), log1p_of, true_log1p);
  CHECK(e.ulps < 1.6);
  CHECK(e.different + e.misplaced == 0);
  CHECK(simplx::log1p(S(-1)) == -S(INFINITY));
  CHECK(simplx::log1p(S(INFINITY)) == S(INFINITY));
}

TEST_SUITE_END();
