// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/power.hpp
/// sqrt, rsqrt and pow.
///
///     pow(x, p) = s e^(p log |x|),   s = -1 for x < 0 and odd p, else 1;   NaN for x < 0 unless p is whole
///
/// An error of p log |x| is one of the result, and that number reaches 88: pow of floats is computed in double, hence
/// right to half an ulp and a little. pow of doubles, and of floats on SSE2, goes to the standard library lane by lane.

#include <simplx/cpu/exponential.hpp>
#include <simplx/cpu/logarithm.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// The square root of every lane. (Compilers keep std::sqrt out of vectors, since it may set errno.)
template <FloatLanes V>
__attribute__((always_inline)) inline V sqrt(V x) {
  if constexpr (std::is_arithmetic_v<V>) {
    return std::sqrt(x);
  } else {
#if defined(__AVX512F__)
    if constexpr (std::is_same_v<Lane<V>, float>) return (V)_mm512_maskz_sqrt_ps(0xffff, (__m512)x);
    if constexpr (std::is_same_v<Lane<V>, double>) return (V)_mm512_maskz_sqrt_pd(0xff, (__m512d)x);
#elif defined(__AVX2__)
    if constexpr (std::is_same_v<Lane<V>, float>) return (V)_mm256_sqrt_ps((__m256)x);
    if constexpr (std::is_same_v<Lane<V>, double>) return (V)_mm256_sqrt_pd((__m256d)x);
#elif defined(__SSE2__)
    if constexpr (std::is_same_v<Lane<V>, float>) return (V)_mm_sqrt_ps((__m128)x);
    if constexpr (std::is_same_v<Lane<V>, double>) return (V)_mm_sqrt_pd((__m128d)x);
#else
    for (unsigned i = 0; i < sizeof(V) / sizeof(Lane<V>); ++i) x[i] = std::sqrt(x[i]);
    return x;
#endif
  }
}

/// 1 / sqrt(x).
template <FloatLanes V>
__attribute__((always_inline)) inline V rsqrt(V x) {
  return 1 / sqrt(x);
}

namespace detail {

/// Whether doubles are whole; infinities are, and even.
template <FloatLanes V>
__attribute__((always_inline)) inline auto whole(V p) {
  constexpr double shift = rounding_shift<double>, all_whole_from = 0x1p51;
  const V size = abs(p);
  return (size >= all_whole_from) | ((size + shift) - shift == size);
}

/// x^p in double; its last digits are lost.
template <FloatLanes V>
__attribute__((always_inline)) inline V pow_by_log(V x, V p) {
  using Limits = std::numeric_limits<double>;
  const V size = abs(x);
  V y = exp(p * log(size));
  y = select((size == 1) | (p == 0), splat<V>(1), y);  // also where p log |x| is 0 times infinity
  y = select(whole(V(p * 0.5)), y, flip(y, sign_of(x)));  // a whole half: p is even
  const auto even_or_odd = whole(p);
  y = select(even_or_odd, y, abs(y));
  y = select((x < 0) & (x > -Limits::infinity()), select(even_or_odd, y, splat<V>(Limits::quiet_NaN())), y);
  return select((x == x) & (p == p), y, V(x + p));
}

}  // namespace detail

/// x^p, lane by lane, as std::pow: of negative numbers for whole p only. A NaN in x or p is one in the result, also
/// where std::pow says 1.
///
/// Cost    float: a logarithm and an exponential of doubles; double, and float on SSE2: std::pow for every lane
template <FloatLanes V>
__attribute__((always_inline)) inline V pow(V x, V p) {
  using S = Lane<V>;
  constexpr bool by_log = std::is_same_v<S, float> && vector_bytes > 16;  // two doubles at a time do not pay
  if constexpr (std::is_arithmetic_v<V>) {
    if constexpr (by_log) return static_cast<float>(detail::pow_by_log<double>(x, p));
    return x == x && p == p ? std::pow(x, p) : x + p;
  } else if constexpr (by_log) {
    using Half = typename detail::VectorOf<float, sizeof(V) / 2>::type;
    using Wide = typename detail::VectorOf<double, sizeof(V)>::type;
    Half base[2], exponent[2];
    std::memcpy(base, &x, sizeof x);
    std::memcpy(exponent, &p, sizeof p);
    for (int i = 0; i < 2; ++i) {
      base[i] = __builtin_convertvector(
          detail::pow_by_log(__builtin_convertvector(base[i], Wide), __builtin_convertvector(exponent[i], Wide)), Half);
    }
    std::memcpy(&x, base, sizeof x);
    return x;
  } else {
    for (unsigned i = 0; i < sizeof(V) / sizeof(S); ++i) x[i] = pow(static_cast<S>(x[i]), static_cast<S>(p[i]));
    return x;
  }
}

/// The same exponent for all lanes.
template <FloatLanes V>
  requires(!std::is_arithmetic_v<V>)
__attribute__((always_inline)) inline V pow(V x, Lane<V> p) {
  return pow(x, splat<V>(p));
}

}  // namespace simplx
