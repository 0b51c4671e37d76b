// SPDX-License-Identifier: MIT
#include <simplx/cpu/power.hpp>

#include <cpu/sweep.hpp>

#include <doctest/doctest.h>

using namespace test;

TEST_SUITE_BEGIN("cpu/power");

namespace {

/// std::pow, but NaN for a NaN.
template <class S>
auto true_pow(S p) {
  return [p](long double x) {
    return std::isnan(x) || std::isnan(p) ? x + p : std::pow(x, static_cast<long double>(p));
  };
}

template <class S>
auto pow_of(S p) {
  return [p](auto x) { return simplx::pow(x, p); };
}

}  // namespace

TEST_CASE_TEMPLATE("sqrt is correctly rounded in every lane, rsqrt within 1.5 ulps", S, float, double) {
  const auto points = sweep<S>(0.01, 100);
  const auto root_of = [](auto x) { return simplx::sqrt(x); };
  const Errors root = errors_of(points, root_of, [](long double x) { return std::sqrt(x); });
  CHECK(root.ulps <= 0.5001);
  CHECK(root.different + root.misplaced == 0);
  const auto inverse_of = [](auto x) { return simplx::rsqrt(x); };
  const Errors inverse = errors_of(points, inverse_of, [](long double x) { return 1 / std::sqrt(x); });
  CHECK(inverse.ulps < 1.5);
  CHECK(inverse.different + inverse.misplaced == 0);
  CHECK(simplx::rsqrt(S(0)) == S(INFINITY));
  CHECK(simplx::rsqrt(S(INFINITY)) == 0);
  CHECK(std::isnan(simplx::sqrt(S(-1))));
}

TEST_CASE_TEMPLATE("pow of both signs for whole, even, odd and other exponents", S, float, double) {
  for (const double p : {2.5, -0.7, 0.5, 3.0, -2.0, 11.3, 1e-3, 41.0, -37.0}) {
    const Errors e = errors_of(sweep<S>(-10, 10, 20'000), pow_of(static_cast<S>(p)), true_pow(static_cast<S>(p)));
    CAPTURE(p);
    CHECK(e.ulps < 0.6);
    CHECK(e.different + e.misplaced == 0);
  }
}

TEST_CASE_TEMPLATE("pow at its corners is std::pow, except that NaN stays NaN", S, float, double) {
  for (const S p : corners<S>()) {
    for (const S q : {p, p + S(0.5), S(2) * p + 1}) {
      const Errors e = errors_of(corners<S>(), pow_of(q), true_pow(q));
      CAPTURE(q);
      CHECK(e.ulps < 0.6);
      CHECK(e.different + e.misplaced == 0);
    }
  }
  for (const int n : {22, 23, 24, 106, 107}) {  // 2^106 + 1.5 * 2^52 - 1.5 * 2^52 is not 2^106
    CHECK(simplx::pow(S(-1), std::ldexp(S(1), n)) == 1);
  }
  const S nan = std::numeric_limits<S>::quiet_NaN();
  CHECK(std::isnan(simplx::pow(nan, S(0))));
  CHECK(std::isnan(simplx::pow(S(1), nan)));
}

TEST_CASE_TEMPLATE("every lane takes its own exponent", S, float, double) {
  Vec<S> x{}, p{};
  for (int l = 0; l < lanes<S>; ++l) x[l] = S(l + 2), p[l] = S(l) / 2;
  const Vec<S> y = simplx::pow(x, p);
  for (int l = 0; l < lanes<S>; ++l) CHECK(y[l] == simplx::pow(static_cast<S>(x[l]), static_cast<S>(p[l])));
  CHECK(y[0] == 1);
  CHECK(std::abs(static_cast<double>(y[lanes<S> - 1]) / std::pow(lanes<S> + 1.0, (lanes<S> - 1) / 2.0) - 1) < 1e-7);
}

TEST_SUITE_END();
