// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/exponential.hpp
/// exp, sigmoid and tanh.
///
///     e^x     = 2^n (1 + q),   n = round(x / ln 2),   r = x - n ln 2 in two steps (Cody & Waite),   q = e^r - 1
///     sigmoid = 1 / (1 + e^-x) = {1, e^-|x|} / (1 + e^-|x|)                     for x >= 0, x < 0
///     tanh    = sign(x) (-t) / (2 + t),   t = e^(-2|x|) - 1 = 2^n q + (2^n - 1)
///
/// No branches. t keeps its relative accuracy near 0, since n is 0 there, so tanh does as well.
///
/// exp of floats clamps its argument to [-87.33, 88.37], so that results are normal numbers: exp(-1000) is 1.2e-38,
/// never 0; sigmoid(-1000) likewise. exp of doubles goes to infinity, to subnormal numbers and to 0 as std::exp does.
///
/// Source    float: the polynomial of Cephes' expf (Moshier). double: minimax on |r| <= ln(2)/2 by Remez' exchange,
///           relative error of q 1.8e-17; the two parts of ln 2 are those of Cephes

#include <simplx/cpu/lane_bits.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// e^x = 2^n (1 + q); n stays in the lowest bits of the rounding shift + n.
template <class V>
struct ExpParts {
  V shifted, q;
};

template <FloatLanes V>
__attribute__((always_inline)) inline ExpParts<V> exp_parts(V x) {
  using S = Lane<V>;
  const V shifted = fma(x, S(1.44269504088896340736), rounding_shift<S>);
  const V n = shifted - rounding_shift<S>;
  if constexpr (std::is_same_v<S, float>) {
    const V r = fma(n, 2.12194440e-4f, fma(n, -0.693359375f, x));
    const V p = polynomial(r, 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f,
                           1.6666665459e-1f, 5.0000001201e-1f);
    return {shifted, fma(p, r * r, r)};
  } else {
    const V r = fma(n, -1.42860682030941723212e-6, fma(n, -6.93145751953125e-1, x));
    const V p = polynomial(r, 2.5053818231796892e-08, 2.7626037754879266e-07, 2.7557407408065592e-06,
                           2.4801505273593661e-05, 1.9841269719149521e-04, 1.3888888931565845e-03,
                           8.3333333333894949e-03, 4.1666666666576747e-02, 1.6666666666666589e-01,
                           5.0000000000000052e-01);
    return {shifted, fma(p, r * r, r)};
  }
}

/// e^x - 1 for x of [-80, 0], with its relative accuracy near 0.
template <FloatLanes V>
__attribute__((always_inline)) inline V exp_less_one(V x) {
  const auto [shifted, q] = exp_parts(x);
  const V power = power_of_two(shifted);
  return fma(power, q, power - 1);
}

}  // namespace detail

/// e^x, lane by lane.
template <FloatLanes V>
__attribute__((always_inline)) inline V exp(V x) {
  if constexpr (std::is_same_v<Lane<V>, float>) {
    x = min(splat<V>(88.37f), max(splat<V>(-87.33f), x));  // in this order a NaN stays one
    const auto [shifted, q] = detail::exp_parts(x);
    return (q + 1) * detail::power_of_two(shifted);
  } else {
    x = min(splat<V>(710), max(splat<V>(-746), x));
    const auto [shifted, q] = detail::exp_parts(x);
    const auto n = detail::bits_of(shifted) + 2 * 1023;  // 2^n in two factors: n goes beyond what one can hold
    const auto half = n >> 1;
    return (q + 1) * detail::value_of<V>(half << 52) * detail::value_of<V>((n - half) << 52);
  }
}

/// 1 / (1 + e^-x), in [0, 1].
template <FloatLanes V>
__attribute__((always_inline)) inline V sigmoid(V x) {
  const V t = exp(-abs(x));
  return select(x < 0, t, splat<V>(1)) / (t + 1);
}

/// The hyperbolic tangent, in [-1, 1]; odd.
template <FloatLanes V>
__attribute__((always_inline)) inline V tanh(V x) {
  constexpr auto saturated = std::is_same_v<Lane<V>, float> ? 10 : 20;  // 1 - tanh is below half an ulp of 1
  const V t = detail::exp_less_one(-2 * min(splat<V>(saturated), abs(x)));
  return detail::flip(abs(t) / (t + 2), detail::sign_of(x));
}

}  // namespace simplx
