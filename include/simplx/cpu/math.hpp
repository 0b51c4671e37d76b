// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/math.hpp
/// exp and sqrt for floats, doubles and vectors of them.
///
///     exp(x) = 2^n e^r,   n = round(x / ln 2),   r = x - n ln 2 in two steps (Cody & Waite)
///
/// float: a polynomial of degree 6 on |r| <= ln(2)/2, relative error below 1.5e-7; the argument is clamped to
/// [-87.33, 88.37], so that results are normal numbers: exp(-1000) is 1.2e-38, never 0. NaN stays NaN, so that
/// a broken loss is seen. A lane of a vector and a single float give the same bits. double: std::exp, lane by
/// lane; it serves gradient checks.

#include <simplx/cpu/simd.hpp>

#include <bit>
#include <cmath>
#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace simplx {

namespace detail {

/// 2^n from 1.5 * 2^23 + n, whose lowest bits are n: no conversion, hence nothing undefined for NaN.
template <class V>
__attribute__((always_inline)) inline V power_of_two(V shifted) {
  if constexpr (std::is_arithmetic_v<V>) {
    return std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) + 127) << 23);
  } else {
    typedef std::uint32_t Bits __attribute__((vector_size(sizeof(V))));
    Bits bits;
    std::memcpy(&bits, &shifted, sizeof shifted);
    bits = (bits + 127) << 23;
    std::memcpy(&shifted, &bits, sizeof bits);
    return shifted;
  }
}

}  // namespace detail

template <class V>
  requires std::is_arithmetic_v<Lane<V>>
__attribute__((always_inline)) inline V exp(V x) {
  if constexpr (std::is_same_v<Lane<V>, float>) {
    x = min(splat<V>(88.37f), max(splat<V>(-87.33f), x));  // in this order a NaN stays one
    constexpr float shift = 12582912.0f;                     // 1.5 * 2^23: adding it rounds to a whole number
    const V shifted = x * 1.44269504f + shift;
    const V n = shifted - shift;
    const V r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    V p = splat<V>(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    return p * detail::power_of_two(shifted);
  } else if constexpr (std::is_arithmetic_v<V>) {
    return std::exp(x);
  } else {
    for (unsigned i = 0; i < sizeof(V) / sizeof(double); ++i) x[i] = std::exp(x[i]);
    return x;
  }
}

/// The square root of every lane. (Compilers keep std::sqrt out of vectors, since it may set errno.)
template <class V>
  requires std::is_arithmetic_v<Lane<V>>
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

}  // namespace simplx
