// SPDX-License-Identifier: MIT
#include <simplx/cpu/erf.hpp>

#include <cpu/sweep.hpp>

#include <doctest/doctest.h>

using namespace test;

TEST_SUITE_BEGIN("cpu/erf");

namespace {

constexpr auto erf_of = [](auto x) { return simplx::erf(x); };
constexpr auto true_erf = [](long double x) { return std::erf(x); };

}  // namespace

TEST_CASE_TEMPLATE("erf keeps its relative accuracy near zero and everywhere", S, float, double) {
  for (const auto& points : {sweep<S>(-0.5, 0.5), sweep<S>(-2, 2), sweep<S>(-7, 7)}) {
    const Errors e = errors_of(points, erf_of, true_erf);
    if (sizeof(S) == 4) CHECK(e.relative < 1.4e-7);
    if (sizeof(S) == 4) CHECK(e.absolute < 1e-7);
    CHECK(e.ulps < 2.4);
    CHECK(e.different + e.misplaced == 0);
  }
}

TEST_CASE_TEMPLATE("erf at its corners: -0, subnormal numbers, exactly 1 far out", S, float, double) {
  const Errors e = errors_of(corners<S>(), erf_of, true_erf);
  CHECK(e.ulps < 2.4);
  CHECK(e.different + e.misplaced == 0);
  CHECK(simplx::erf(S(7)) == 1);
  CHECK(simplx::erf(S(-INFINITY)) == -1);
}

TEST_SUITE_END();
