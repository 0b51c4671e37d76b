// SPDX-License-Identifier: MIT
#include <simplx/cpu/lane_bits.hpp>

#include <cpu/sweep.hpp>

#include <doctest/doctest.h>

using namespace test;

TEST_SUITE_BEGIN("cpu/lane_bits");

TEST_CASE_TEMPLATE("powers of two come from the lowest bits of the rounding shift", S, float, double) {
  constexpr S shift = simplx::detail::rounding_shift<S>;
  for (int n = -126; n <= 127; ++n) {
    CHECK(simplx::detail::power_of_two(shift + S(n)) == std::ldexp(S(1), n));
    CHECK(simplx::detail::power_of_two(splat<Vec<S>>(shift + S(n)))[1] == std::ldexp(S(1), n));
  }
}

TEST_CASE_TEMPLATE("abs clears the sign of zeros, infinities and NaNs too", S, float, double) {
  const auto abs_of = [](auto x) { return simplx::abs(x); };
  const Errors e = errors_of(corners<S>(), abs_of, [](long double x) { return std::abs(x); });
  CHECK(e.absolute == 0);
  CHECK(e.different + e.misplaced == 0);
  CHECK_FALSE(std::signbit(simplx::abs(std::copysign(std::numeric_limits<S>::quiet_NaN(), S(-1)))));
}

TEST_CASE_TEMPLATE("flip negates where the sign bit is set, and only there", S, float, double) {
  Vec<S> v = splat<Vec<S>>(S(3)), sign{};
  sign[1] = S(-0.0);
  const Vec<S> y = simplx::detail::flip(v, simplx::detail::sign_of(sign));
  CHECK(y[0] == 3);
  CHECK(y[1] == -3);
  CHECK(simplx::detail::flip(S(-2), simplx::detail::sign_of(S(-7))) == 2);
}

TEST_CASE_TEMPLATE("a polynomial begins with its highest coefficient", S, float, double) {
  CHECK(simplx::detail::polynomial(S(10), S(1), S(2), S(3)) == 123);
  CHECK(simplx::detail::polynomial(splat<Vec<S>>(S(10)), S(1), S(2), S(3))[lanes<S> - 1] == 123);
}

TEST_CASE_TEMPLATE("fma rounds alike in lanes and single numbers, once where the machine can", S, float, double) {
  const S x = 1 + std::numeric_limits<S>::epsilon(), square = x * x;
  const S once = simplx::detail::fma(x, x, -square);
  CHECK(simplx::detail::fma(splat<Vec<S>>(x), x, -square)[1] == once);
#if defined(__FMA__)
  CHECK(once == std::fma(x, x, -square));
  CHECK(once != 0);
#endif
}

TEST_CASE_TEMPLATE("any finds a single lane, the first and the last", S, float, double) {
  for (int i = 0; i < lanes<S>; ++i) {
    Vec<S> v{};
    CHECK_FALSE(simplx::detail::any(v > 1));
    v[i] = 2;
    CHECK(simplx::detail::any(v > 1));
  }
  CHECK(simplx::detail::any(true));
  CHECK_FALSE(simplx::detail::any(false));
}

TEST_CASE_TEMPLATE("lanes beyond a limit are replaced, the others kept", S, float, double) {
  constexpr auto minus = [](S x) { return -x; };
  Vec<S> x = splat<Vec<S>>(S(1));
  x[1] = S(-9);
  const Vec<S> y = simplx::detail::replaced_beyond<minus>(S(5), x, splat<Vec<S>>(S(7)));
  CHECK(y[0] == 7);
  CHECK(y[1] == 9);
}

TEST_SUITE_END();
