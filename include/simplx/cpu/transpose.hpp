// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/transpose.hpp
/// Transposing a group of rows, so that each row becomes a lane: square blocks of vectors, in log2(lanes) rounds.

#include <simplx/cpu/simd.hpp>

#include <utility>

namespace simplx::inline SIMPLX_TARGET::cpu {

/// The lanes of a and b alternately, from lane `begin` on.
template <int begin, class V, int... lane>
__attribute__((always_inline)) inline V interleave(V a, V b, std::integer_sequence<int, lane...>) {
  constexpr int count = sizeof...(lane);
#if defined(__has_builtin) && __has_builtin(__builtin_shufflevector) && !defined(__CUDACC__)  // nvcc garbles the pack
  return __builtin_shufflevector(a, b, (begin + lane / 2 + lane % 2 * count)...);
#else
  V result{};
  for (int i = 0; i < count; ++i) result[i] = i % 2 ? b[begin + i / 2] : a[begin + i / 2];
  return result;
#endif
}

/// Transposes lanes<S> vectors: each round interleaves the first half of them with the second.
template <class S>
__attribute__((always_inline)) inline void transpose_vectors(Vec<S>* rows) {
  constexpr int count = lanes<S>;
  constexpr auto sequence = std::make_integer_sequence<int, count>();
  SIMPLX_UNROLL
  for (int round = 1; round < count; round *= 2) {
    Vec<S> mixed[count];
    SIMPLX_UNROLL
    for (int i = 0; i < count / 2; ++i) {
      mixed[2 * i] = interleave<0>(rows[i], rows[i + count / 2], sequence);
      mixed[2 * i + 1] = interleave<count / 2>(rows[i], rows[i + count / 2], sequence);
    }
    SIMPLX_UNROLL
    for (int i = 0; i < count; ++i) rows[i] = mixed[i];
  }
}

/// target(e, i) = factor * source(i, e).
///
/// Shapes  source (rows, width), rows <= group -> target (width, group), zero in the columns beyond `rows`
/// Errors  needs a width and a group that are multiples of lanes<S>
template <int width, int group, class S, class RowStride>
void transpose_group(Index rows, S factor, const S* source, RowStride stride, S* target) {
  static_assert(width % lanes<S> == 0 && group % lanes<S> == 0,
                "simplx: rows are transposed in whole vectors: width and group must be multiples of lanes<S>");
  using V = Vec<S>;
  constexpr int count = lanes<S>;
  for (int lane = 0; lane < group; lane += count) {
    for (int begin = 0; begin < width; begin += count) {
      V block[count];
      SIMPLX_UNROLL
      for (int i = 0; i < count; ++i) {
        block[i] = lane + i < rows ? V(load<V>(source + (lane + i) * stride + begin) * factor) : V{};
      }
      transpose_vectors<S>(block);
      SIMPLX_UNROLL
      for (int i = 0; i < count; ++i) store(target + (begin + i) * group + lane, block[i]);
    }
  }
}

}  // namespace simplx::cpu
