// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/trigonometry.hpp
/// sin and cos.
///
///     |x| = n pi/2 + r + tail,   n = round(|x| 2/pi),   |r| <= pi/4                             (Cody & Waite)
///     sin |x| = sin r, cos r, -sin r, -cos r   for n mod 4 = 0, 1, 2, 3;   cos |x| one quarter on
///
/// pi/2 is taken in three parts; the first two are short enough that their products with n < 2^13 are exact. Beyond
/// |x| = 12800, and for infinities, lanes go one by one to the standard library: rare, slow, and right. floats are
/// right to 1e-7 of the largest value, 1; doubles to their last digits also beside the zeros of sin and cos, which
/// is what the tail is for.
///
/// Source    float: the polynomials of Cephes' sinf and cosf (Moshier). double: those of fdlibm's k_sin.c and
///           k_cos.c (Sun)

#include <simplx/cpu/lane_bits.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

inline constexpr int reduction_limit = 12800;

/// n quarter turns and r + tail more; the lowest bits of `quarters` are n.
template <class V>
struct Angle {
  V r, tail;
  Bits<V> quarters;
};

/// Of 0 <= x <= reduction_limit.
template <FloatLanes V>
__attribute__((always_inline)) inline Angle<V> reduced(V x) {
  using S = Lane<V>;
  const V shifted = fma(x, S(0.63661977236758134308), rounding_shift<S>);
  const V n = shifted - rounding_shift<S>;
  if constexpr (std::is_same_v<S, float>) {
    const V r = fma(n, -7.54978995489188e-8f, fma(n, -4.837512969970703125e-4f, fma(n, -1.5703125f, x)));
    return {r, V{}, bits_of(shifted)};
  } else {
    const V first = x - n * 0x1.921fb54442p+0;  // exact
    const V second = n * 0x1.a308d31318p-41;    // exact; the difference is not, so that its error is kept
    const V difference = first - second;
    const V rest = fma(n, -6.3683171635109501e-25, (first - difference) - second);
    const V r = difference + rest;
    return {r, (difference - r) + rest, bits_of(shifted)};
  }
}

template <FloatLanes V>
__attribute__((always_inline)) inline V sin_of(const Angle<V>& angle) {
  const V r = angle.r, z = r * r;
  if constexpr (std::is_same_v<Lane<V>, float>) {
    return fma(polynomial(z, -1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f), z * r, r);
  } else {
    const V p = polynomial(z, 1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
                           -1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01);
    return r + fma(p, z * r, angle.tail);  // tail cos r would be a sixth of an ulp better at worst
  }
}

template <FloatLanes V>
__attribute__((always_inline)) inline V cos_of(const Angle<V>& angle) {
  const V r = angle.r, z = r * r;
  if constexpr (std::is_same_v<Lane<V>, float>) {
    return polynomial(z, 2.443315711809948e-5f, -1.388731625493765e-3f, 4.166664568298827e-2f, -0.5f, 1.0f);
  } else {
    const V p = polynomial(z, -1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07,
                           2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02);
    const V half = 0.5 * z, rounded = 1 - half;
    const V small = (1 - rounded) - half;  // what rounding took from 1 - half
    return rounded + fma(z, z * p, fma(-r, angle.tail, small));
  }
}

/// The sine of |x| + more quarter turns.
template <FloatLanes V>
__attribute__((always_inline)) inline V sin_of_quarters(V x, unsigned more) {
  using S = Lane<V>;
  const Angle<V> angle = reduced(abs(x));
  const Bits<V> quarters = angle.quarters + more;
  const V y = select((quarters & 1) != 0, cos_of(angle), sin_of(angle));
  return flip(y, (quarters << (8 * sizeof(S) - 2)) & sign_bit<S>);
}

}  // namespace detail

/// The sine, lane by lane; odd.
///
/// Cost    both polynomials and a choice; lanes beyond |x| = 12800 one by one through std::sin
template <FloatLanes V>
__attribute__((always_inline)) inline V sin(V x) {
  using S = Lane<V>;
  const V y = detail::flip(detail::sin_of_quarters(x, 0), detail::sign_of(x));
  constexpr auto single = [](S number) { return std::sin(number); };
  if (detail::any(abs(x) > detail::reduction_limit)) {
    return detail::replaced_beyond<single>(detail::reduction_limit, x, y);
  }
  return y;
}

/// The cosine, lane by lane; even.
///
/// Cost    as sin
template <FloatLanes V>
__attribute__((always_inline)) inline V cos(V x) {
  using S = Lane<V>;
  const V y = detail::sin_of_quarters(x, 1);
  constexpr auto single = [](S number) { return std::cos(number); };
  if (detail::any(abs(x) > detail::reduction_limit)) {
    return detail::replaced_beyond<single>(detail::reduction_limit, x, y);
  }
  return y;
}

}  // namespace simplx
