// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/bfloat16.hpp
/// Pairs of bfloat16, the upper halves of floats, and the sum of their products: half the bytes of float and, where the
/// CPU multiplies pairs (AVX-512 BF16), twice the speed on AMD's; Intel's have a matrix unit for them (amx.hpp).
///
/// A word of 32 bits holds two neighbours of the inner dimension of a product, the first one in its lower half. Other
/// CPUs compute the same from words that are taken apart, at the speed of float.

#include <simplx/cpu/simd.hpp>

#include <cstdint>

#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

namespace simplx::inline SIMPLX_TARGET::cpu {

/// A word with two bfloat16: neighbours in the inner dimension of a product.
using Twin = std::int32_t;

/// Rounds to the nearest bfloat16, ties to even; it is left in the upper half. NaN stays NaN.
inline Vec<std::uint32_t> rounded(Vec<float> x) {
  using Bits = Vec<std::uint32_t>;
  Bits bits = load<Bits>(&x);
  const auto is_nan = x != x;
  bits += 0x7fff + ((bits >> 16) & 1);
  return (is_nan ? Bits{} + 0x7fc00000u : bits) & 0xffff0000u;
}

/// (first[i], second[i]) for each lane.
__attribute__((always_inline)) inline Vec<Twin> pairs_of(Vec<float> first, Vec<float> second) {
#if defined(__AVX512BF16__)
  typedef std::uint16_t Halves __attribute__((vector_size(32)));
  const auto words = [](Vec<float> x) {
    return __builtin_convertvector((Halves)_mm512_cvtneps_pbh((__m512)x), Vec<std::uint32_t>);
  };
  return (Vec<Twin>)(words(first) | words(second) << 16);
#else
  return (Vec<Twin>)(rounded(first) >> 16 | rounded(second));
#endif
}

/// (x[0], x[1]), (x[2], x[3]), ... of two vectors, one after the other.
__attribute__((always_inline)) inline Vec<Twin> pairs_along(Vec<float> front, Vec<float> back) {
#if defined(__AVX512BF16__)
  return (Vec<Twin>)_mm512_cvtne2ps_pbh((__m512)back, (__m512)front);
#else
  constexpr int L = lanes<float>;
  float numbers[2 * L], even[L], odd[L];
  store(numbers, front), store(numbers + L, back);
  for (int i = 0; i < L; ++i) even[i] = numbers[2 * i], odd[i] = numbers[2 * i + 1];
  return pairs_of(load<Vec<float>>(even), load<Vec<float>>(odd));
#endif
}

/// sum + left * right: of one number in each lane, or of two, whose products are added to the same sum.
template <class V>
__attribute__((always_inline)) inline V multiply_add(V sum, V left, V right) {
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__) && defined(__FMA__)
  // Left alone, g++ moves sums between registers and, where 16 are all that there is, to the stack and back.
  if constexpr (vector_bytes == 32 && std::is_same_v<V, Vec<float>>) {
    asm("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(left), "x"(right));
    return sum;
  } else if constexpr (vector_bytes == 32 && std::is_same_v<V, Vec<double>>) {
    asm("vfmadd231pd %2, %1, %0" : "+x"(sum) : "x"(left), "x"(right));
    return sum;
  }
#endif
  return sum + left * right;
}
__attribute__((always_inline)) inline Vec<float> multiply_add(Vec<float> sum, Vec<Twin> left, Vec<Twin> right) {
#if defined(__AVX512BF16__)
  return (Vec<float>)_mm512_dpbf16_ps((__m512)sum, (__m512bh)left, (__m512bh)right);
#else
  using Bits = Vec<std::uint32_t>;
  const auto first = [](Vec<Twin> pairs) { return (Vec<float>)((Bits)pairs << 16); };
  const auto second = [](Vec<Twin> pairs) { return (Vec<float>)((Bits)pairs & 0xffff0000u); };
  sum += first(left) * first(right);
  return sum + second(left) * second(right);
#endif
}

/// Pairs neighbours of a row: `count` even numbers become count / 2 pairs.
inline void pair_columns(Index count, const float* row, Twin* pairs) {
  constexpr Index step = 2 * lanes<float>;
  Index i = 0;
  for (; i + step <= count; i += step) {
    store(pairs + i / 2, pairs_along(load<Vec<float>>(row + i), load<Vec<float>>(row + i + lanes<float>)));
  }
  if (i == count) return;
  float rest[step]{};
  Twin words[step / 2];
  std::memcpy(rest, row + i, static_cast<std::size_t>(count - i) * sizeof(float));
  store(words, pairs_along(load<Vec<float>>(rest), load<Vec<float>>(rest + lanes<float>)));
  std::memcpy(pairs + i / 2, words, static_cast<std::size_t>(count - i) / 2 * sizeof(Twin));
}

/// Pairs each number of a row with the one below it; `second` is nullptr after the last row, which pairs with zeros.
inline void pair_rows(Index count, const float* first, const float* second, Twin* pairs) {
  for (Index i = 0; i < count; i += lanes<float>) {
    const Vec<float> below = second ? load<Vec<float>>(second + i) : Vec<float>{};
    store(pairs + i, pairs_of(load<Vec<float>>(first + i), below));
  }
}

}  // namespace simplx::cpu
