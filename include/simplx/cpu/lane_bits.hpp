// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/lane_bits.hpp
/// What elementary functions are made of: the bits of lanes, their signs, powers of two, polynomials, lanes in need.
///
///     float   sign 1 | exponent 8, bias 127   | fraction 23
///     double  sign 1 | exponent 11, bias 1023 | fraction 52
///
/// Whole numbers are made by adding 1.5 * 2^fraction: the sum is rounded to a whole number, whose bits are the lowest
/// of the sum. No conversion, hence nothing undefined for NaN, and the same instruction on every machine.

#include <simplx/cpu/simd.hpp>

#include <cstdint>

#if defined(__AVX2__) || defined(__FMA__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace simplx::inline SIMPLX_TARGET {

/// float, double, or a vector of them.
template <class V>
concept FloatLanes = std::is_same_v<Lane<V>, float> || std::is_same_v<Lane<V>, double>;

namespace detail {

template <class V, bool single = std::is_arithmetic_v<V>>
struct BitsOf {
  using type = std::conditional_t<sizeof(V) == 4, std::uint32_t, std::uint64_t>;
};
template <class V>
struct BitsOf<V, false> : VectorOf<typename BitsOf<Lane<V>>::type, sizeof(V)> {};

/// Unsigned words as wide as the lanes, as many.
template <class V>
using Bits = typename BitsOf<V>::type;

template <class S>
inline constexpr int fraction_bits = sizeof(S) == 4 ? 23 : 52;
template <class S>
inline constexpr int exponent_bias = sizeof(S) == 4 ? 127 : 1023;
template <class S>
inline constexpr Bits<S> sign_bit = Bits<S>(1) << (8 * sizeof(S) - 1);

/// Added to a number below 2^(fraction - 1), it rounds it to a whole one.
template <class S>
inline constexpr S rounding_shift = sizeof(S) == 4 ? S(12582912) : S(6755399441055744);

template <FloatLanes V>
__attribute__((always_inline)) inline Bits<V> bits_of(V value) {
  Bits<V> bits;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <FloatLanes V>
__attribute__((always_inline)) inline V value_of(Bits<V> bits) {
  V value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// 2^n from the rounding shift + n, for the n of normal numbers.
template <FloatLanes V>
__attribute__((always_inline)) inline V power_of_two(V shifted) {
  using S = Lane<V>;
  return value_of<V>((bits_of(shifted) + exponent_bias<S>) << fraction_bits<S>);
}

/// The sign bits of the lanes of v, all else 0.
template <FloatLanes V>
__attribute__((always_inline)) inline Bits<V> sign_of(V v) {
  return bits_of(v) & sign_bit<Lane<V>>;
}

/// v, negated in the lanes whose sign bit is set.
template <FloatLanes V>
__attribute__((always_inline)) inline V flip(V v, Bits<V> sign) {
  return value_of<V>(bits_of(v) ^ sign);
}

/// A vector as it is, a number in every lane.
template <FloatLanes V, class T>
__attribute__((always_inline)) inline V in_lanes(T t) {
  if constexpr (std::is_same_v<T, V>) {
    return t;
  } else {
    return splat<V>(static_cast<Lane<V>>(t));
  }
}

/// a b + c, rounded once where the machine has the instruction; b and c may be single numbers.
///
/// Written out, since compilers contract products and sums in one place and not in the other (g++ 12 -O3 did so in
/// vectors but not in single numbers): the elements left at the end of a row would differ in their last digit.
template <FloatLanes V, class B, class C>
__attribute__((always_inline)) inline V fma(V a, B b_or_number, C c_or_number) {
  const V b = in_lanes<V>(b_or_number), c = in_lanes<V>(c_or_number);
#if defined(__FMA__)
  if constexpr (std::is_arithmetic_v<V>) {
    return std::fma(a, b, c);
  } else {
    static_assert(sizeof(V) == vector_bytes, "fma: a full vector is wanted");
#if defined(__AVX512F__)
    if constexpr (std::is_same_v<Lane<V>, float>) return (V)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
    if constexpr (std::is_same_v<Lane<V>, double>) return (V)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__AVX2__)
    if constexpr (std::is_same_v<Lane<V>, float>) return (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
    if constexpr (std::is_same_v<Lane<V>, double>) return (V)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    if constexpr (std::is_same_v<Lane<V>, float>) return (V)_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c);
    if constexpr (std::is_same_v<Lane<V>, double>) return (V)_mm_fmadd_pd((__m128d)a, (__m128d)b, (__m128d)c);
#endif
  }
#else
  return a * b + c;
#endif
}

/// ((highest x + next) x + ...) x + lowest, by Horner.
template <FloatLanes V, class... Coefficients>
__attribute__((always_inline)) inline V polynomial(V x, Lane<V> highest, Coefficients... next) {
  V p = splat<V>(highest);
  ((p = fma(p, x, next)), ...);
  return p;
}

/// Whether a comparison of full vectors, or of single numbers, holds in some lane.
template <class Mask>
__attribute__((always_inline)) inline bool any(Mask mask) {
  if constexpr (std::is_same_v<Mask, bool>) {
    return mask;
  } else {
    static_assert(sizeof(Mask) == vector_bytes, "any: a mask of a full vector is wanted");
#if defined(__AVX512F__)
    return _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX2__)
    return _mm256_movemask_epi8((__m256i)mask) != 0;
#elif defined(__SSE2__)
    return _mm_movemask_epi8((__m128i)mask) != 0;
#else
    std::uint64_t word[sizeof(Mask) / 8], found = 0;
    std::memcpy(word, &mask, sizeof mask);
    for (const std::uint64_t w : word) found |= w;
    return found != 0;
#endif
  }
}

/// y, replaced by the single-number function in the lanes whose argument is beyond the limit; for rare arguments.
template <auto single, FloatLanes V>
__attribute__((noinline, cold)) V replaced_beyond(Lane<V> limit, V x, V y) {
  if constexpr (std::is_arithmetic_v<V>) {
    return std::abs(x) > limit ? single(x) : y;
  } else {
    for (unsigned i = 0; i < sizeof(V) / sizeof(Lane<V>); ++i) {
      if (std::abs(x[i]) > limit) y[i] = single(x[i]);
    }
    return y;
  }
}

}  // namespace detail

/// |x|: the sign bit cleared, of zeros and NaNs too.
template <FloatLanes V>
__attribute__((always_inline)) inline V abs(V x) {
  return detail::value_of<V>(detail::bits_of(x) & ~detail::sign_bit<Lane<V>>);
}

}  // namespace simplx
