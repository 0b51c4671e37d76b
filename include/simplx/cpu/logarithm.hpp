// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/logarithm.hpp
/// log and log1p.
///
///     log x   = k ln 2 + log m,   x = 2^k m,   m in [sqrt(1/2), sqrt(2)),   f = m - 1
///     float     log m = f - f^2/2 + f^3 P(f)
///     double    log m = f - s (f - s^2 P(s^2)),   s = f / (2 + f)
///     log1p x = k ln 2 + log (1 + f),   k of 1 + x rounded,   f = x / 2^k + (1 / 2^k - 1), rounded once
///
/// log(0) is -infinity, log of a negative number NaN, log of infinity infinity. Subnormal numbers are scaled first.
///
/// Source    float: the polynomial of Cephes' logf (Moshier). double: the coefficients of fdlibm's e_log.c (Sun)

#include <simplx/cpu/lane_bits.hpp>

#include <limits>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// x = 2^k m of normal numbers, m in [sqrt(1/2), sqrt(2)).
template <class V>
struct LogParts {
  V k, m, power;  ///< power is 2^-k
};

template <FloatLanes V>
__attribute__((always_inline)) inline LogParts<V> log_parts(V x) {
  using S = Lane<V>;
  using Word = Bits<S>;
  constexpr int fraction = fraction_bits<S>;
  constexpr S two_to_fraction = S(Word(1) << fraction);
  constexpr Word fraction_mask = (Word(1) << fraction) - 1;
  constexpr Word one = Word(exponent_bias<S>) << fraction;
  constexpr Word root_half = sizeof(S) == 4 ? Word(0x3f3504f3) : Word(0x3fe6a09e667f3bcd);  // sqrt(1/2)
  const auto moved = bits_of(x) + (one - root_half);  // the exponent field now is k + bias
  // k + bias as a number: in the fraction of 2^fraction, which is subtracted together with the bias.
  const V k = value_of<V>((moved >> fraction) | bits_of(two_to_fraction)) - (two_to_fraction + exponent_bias<S>);
  return {k, value_of<V>((moved & fraction_mask) + root_half), value_of<V>(2 * one - (moved & ~fraction_mask))};
}

/// k ln 2 + log(1 + f) for 1 + f in [sqrt(1/2), sqrt(2)).
template <FloatLanes V>
__attribute__((always_inline)) inline V log_of_parts(V k, V f) {
  using S = Lane<V>;
  if constexpr (std::is_same_v<S, float>) {
    const V p = polynomial(f, 7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f,
                           1.4249322787e-1f, -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f,
                           -0.5f);
    return fma(k, 0.693359375f, fma(p, f * f, fma(k, -2.12194440e-4f, f)));
  } else {
    const V s = f / (f + 2);
    const V z = s * s;
    const V p = polynomial(z, 1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
                           2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01,
                           6.666666666666735130e-01);
    const V y = fma(-s, fma(-p, z, f), fma(k, 1.90821492927058770002e-10, f));
    return fma(k, 6.93147180369123816490e-01, y);
  }
}

/// y = log x where x is positive and finite; elsewhere what the logarithm is there.
template <FloatLanes V>
__attribute__((always_inline)) inline V with_corners(V x, V y) {
  using Limits = std::numeric_limits<Lane<V>>;
  y = select(x < Limits::infinity(), y, x);  // infinity and NaN stay
  const V corner = select(x < 0, splat<V>(Limits::quiet_NaN()), splat<V>(-Limits::infinity()));
  return select(x <= 0, corner, y);
}

}  // namespace detail

/// The natural logarithm, lane by lane.
template <FloatLanes V>
__attribute__((always_inline)) inline V log(V x) {
  using S = Lane<V>;
  constexpr int raised = detail::fraction_bits<S> + 2;
  const auto subnormal = x < std::numeric_limits<S>::min();
  const auto [k, m, power] = detail::log_parts(select(subnormal, V(x * S(std::uint64_t(1) << raised)), x));
  const V own = k - select(subnormal, splat<V>(S(raised)), splat<V>(S(0)));
  return detail::with_corners(x, detail::log_of_parts(own, V(m - 1)));
}

/// log(1 + x) with its relative accuracy near 0.
template <FloatLanes V>
__attribute__((always_inline)) inline V log1p(V x) {
  using S = Lane<V>;
  const V u = x + 1;
  const auto [k, m, power] = detail::log_parts(u);
  constexpr S much = S(std::uint64_t(1) << (detail::fraction_bits<S> + 2));  // 1 + x is x, and 1 / 2^k may be no number
  const V f = select(u > much, V(m - 1), V(x * power + (power - 1)));
  const V y = detail::with_corners(u, detail::log_of_parts(k, f));
  return select(u == 1, x, y);  // also -0
}

}  // namespace simplx
