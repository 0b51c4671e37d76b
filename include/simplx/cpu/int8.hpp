// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/int8.hpp
/// Weights as bytes, a quarter of what a product of few rows reads. Each column of W is rounded to steps of its own,
///
///     W[k, n] ~ scale[n] B[k, n],   B[k, n] = -127 ... 127,   scale[n] = max_k |W[k, n]| / 127
///
/// so that X W = (X B) diag(scale). Bytes become floats in registers, and are multiplied and added up as floats; the
/// scale is the first thing that the product's epilogue does (gemm.hpp).

#include <simplx/core/info.hpp>
#include <simplx/cpu/panels.hpp>
#include <simplx/cpu/part.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Weights that become a vector of floats.
using Bytes = typename detail::VectorOf<std::int8_t, lanes<float>>::type;

/// By the instructions for it: of a conversion g++ 12 makes one of each number.
__attribute__((always_inline)) inline Vec<float> floats_of(Bytes bytes) {
#if defined(__AVX512F__) && !defined(__CUDACC__)
  return (Vec<float>)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32((__m128i)bytes));
#elif defined(__AVX2__) && !defined(__CUDACC__)
  return (Vec<float>)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_set_epi64x(0, std::bit_cast<long long>(bytes))));
#elif !defined(__CUDACC__)
  using Words = Vec<std::uint32_t>;  // each byte to the top of its word, and down again with its sign
  const Words tops = splat<Words>(std::bit_cast<std::uint32_t>(bytes)) * Words{1u << 24, 1u << 16, 1u << 8, 1u};
  return __builtin_convertvector((Vec<std::int32_t>)tops >> 24, Vec<float>);
#else
  return __builtin_convertvector(bytes, Vec<float>);
#endif
}

/// Words of a right operand as they are multiplied: what lies there, or bytes as floats.
template <class Words, class B>
__attribute__((always_inline)) inline Words load_words(const B* place) {
  if constexpr (std::is_same_v<B, std::int8_t>) {
    return floats_of(load<Bytes>(place));
  } else {
    return load<Words>(place);
  }
}

/// The epilogue of a product with bytes, before that of the product with the weights.
template <class Epilogue>
struct Scaled {
  const float* scales;
  const Epilogue& epilogue;

  template <class V>
  __attribute__((always_inline)) Register<V> at(Register<V> accumulator, Index row, Index col) const {
    return epilogue.template at<V>(accumulator * load<V>(scales + col), row, col);
  }
};

/// The bytes of a packed matrix of N columns, behind its scales.
template <class Float>
auto packed_bytes(Index N, Float* packed) {
  using Byte = std::conditional_t<std::is_const_v<Float>, const std::int8_t, std::int8_t>;
  return reinterpret_cast<Byte*>(packed + round_up(N, alignment));
}

/// The scale of a column whose largest magnitude is known: 0 where a step would be no normal number. Where a weight is
/// not finite, it is not, either, and so is no product with the column.
inline float scale_of(float largest) {
  const float scale = largest / 127;
  return scale < std::numeric_limits<float>::min() ? 0.f : scale;
}

/// The nearest steps, ties to even: of the sum with 1.5 * 2^23 the last bits are a whole number. They are 0 where a
/// scale is 0 or NaN, and of no account where it is infinite.
inline Bytes steps_of(Vec<float> weights, Vec<float> scales) {
  using V = Vec<float>;
  constexpr float ulp_is_one = 0x1.8p23f;
  const V sums = select(scales > V{}, V(weights / scales), V{}) + splat<V>(ulp_is_one);
  return __builtin_convertvector((Vec<std::int32_t>)sums - std::bit_cast<std::int32_t>(ulp_is_one), Bytes);
}

/// Packs a (K, N) matrix, or the transpose of an (N, K) one, in panels as pack does, as bytes behind the scales of its
/// columns.
///
/// Shapes  packed: N floats, rounded up to a multiple of `alignment`, and K bytes for each column of whole vectors
/// Cost    two passes
template <bool transposed>
void pack_bytes(Index K, Index N, const float* matrix, float* packed) {
  using V = Vec<float>;
  using Bits = Vec<std::int32_t>;
  constexpr Index L = lanes<float>, wide = panel_width<float>;
  float* const scales = packed;
  std::int8_t* const bytes = packed_bytes(N, packed);
  const Index rows = transposed ? N : K, cols = transposed ? K : N;  // as they lie in memory
  const auto numbers = [&](Index row, Index col) __attribute__((always_inline)) {
    const Index count = row < rows ? std::min(L, cols - col) : 0;
    if (count == L) return load<V>(matrix + row * cols + col);
    return count > 0 ? load_lanes(matrix + row * cols + col, count) : V{};
  };

  // The largest magnitudes come first, by their bits, whose order is that of the numbers, with NaN above all.
  std::fill_n(scales, round_up(N, alignment), 0.f);
  for (Index row = 0; row < rows; ++row) {
    Bits largest_of_row{};
    for (Index col = 0; col < cols; col += L) {
      const Bits magnitudes = (Bits)numbers(row, col) & std::numeric_limits<std::int32_t>::max();
      if constexpr (transposed) {
        largest_of_row = max(largest_of_row, magnitudes);
      } else {
        store(scales + col, max(load<Bits>(scales + col), magnitudes));
      }
    }
    if constexpr (transposed) scales[row] = std::bit_cast<float>(largest(largest_of_row));
  }
  for (Index n = 0; n < N; ++n) scales[n] = scale_of(scales[n]);

  // Calls f(where its first row goes, bytes from row to row) for a vector of columns.
  const auto in_panel = [&](Index n, const auto& f) __attribute__((always_inline)) {
    const Index panel = n / wide * wide;
    if (panel + wide <= N) {
      f(bytes + panel * K + (n - panel), wide);
    } else {
      f(bytes + n * K, L);
    }
  };
  if constexpr (transposed) {
    for (Index n = 0; n < N; n += L) {
      in_panel(n, [&](std::int8_t* to, Index stride) __attribute__((always_inline)) {
        for (Index k = 0; k < K; k += L) {
          V square[L];
          SIMPLX_UNROLL
          for (int i = 0; i < L; ++i) square[i] = numbers(n + i, k);
          transpose_vectors<float>(square);
          const Index left = std::min(L, K - k);
          for (Index i = 0; i < left; ++i) store(to + (k + i) * stride, steps_of(square[i], load<V>(scales + n)));
        }
      });
    }
  } else {
    for (Index k = 0; k < K; ++k) {
      for (Index n = 0; n < N; n += L) {
        in_panel(n, [&](std::int8_t* to, Index stride) __attribute__((always_inline)) {
          store(to + k * stride, steps_of(numbers(k, n), load<V>(scales + n)));
        });
      }
    }
  }
}

}  // namespace simplx::cpu
