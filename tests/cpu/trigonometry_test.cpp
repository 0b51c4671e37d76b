// SPDX-License-Identifier: MIT
#include <simplx/cpu/trigonometry.hpp>

#include <cpu/sweep.hpp>

#include <doctest/doctest.h>

using namespace test;

TEST_SUITE_BEGIN("cpu/trigonometry");

namespace {

constexpr auto sin_of = [](auto x) { return simplx::sin(x); };
constexpr auto cos_of = [](auto x) { return simplx::cos(x); };
constexpr auto true_sin = [](long double x) { return std::sin(x); };
constexpr auto true_cos = [](long double x) { return std::cos(x); };

template <class S>
void check_both(const std::vector<S>& points) {
  for (const Errors& e : {errors_of(points, sin_of, true_sin), errors_of(points, cos_of, true_cos)}) {
    CHECK(e.absolute < 8e-8);
    if (sizeof(S) == 8) CHECK(e.ulps < 0.9);
    CHECK(e.different + e.misplaced == 0);
  }
}

}  // namespace

TEST_CASE_TEMPLATE("sin and cos, also beyond what is reduced here", S, float, double) {
  check_both(sweep<S>(-1, 1));
  check_both(sweep<S>(-100, 100));
  check_both(sweep<S>(-14000, 14000));
  check_both(sweep<S>(1e5, 1e7, 1000));
}

TEST_CASE_TEMPLATE("sin keeps its relative accuracy near zero", S, float, double) {
  const Errors e = errors_of(sweep<S>(-1, 1), sin_of, true_sin);
  CHECK(e.relative < (sizeof(S) == 4 ? 1.1e-7 : 1.5e-16));
}

TEST_CASE_TEMPLATE("sin and cos beside their zeros, to beyond what is reduced here", S, float, double) {
  std::vector<S> points;
  for (int n = 1; n <= 9000; ++n) {
    const S x = static_cast<S>(n * 1.5707963267948966192313L);
    points.insert(points.end(), {std::nextafter(x, S(0)), x, std::nextafter(x, S(1e9))});
  }
  check_both(points);
}

TEST_CASE_TEMPLATE("sin and cos at their corners: -0, huge numbers, infinities, NaN", S, float, double) {
  check_both(corners<S>());
  CHECK(simplx::cos(S(0)) == 1);
  CHECK(std::isnan(simplx::sin(S(INFINITY))));
}

TEST_CASE_TEMPLATE("a huge lane leaves its neighbours as they are", S, float, double) {
  Vec<S> v = splat<Vec<S>>(S(0.7));
  v[1] = S(1e8);
  CHECK(simplx::sin(v)[0] == simplx::sin(S(0.7)));
  CHECK(simplx::cos(v)[lanes<S> - 1] == (lanes<S> == 2 ? std::cos(S(1e8)) : simplx::cos(S(0.7))));
  CHECK(simplx::sin(v)[1] == std::sin(S(1e8)));
}

TEST_SUITE_END();
