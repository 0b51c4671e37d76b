// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/matrix_vector.hpp
/// Products of a matrix and a vector, A (rows, K) row after row in memory:
///
///     y = A w          as many rows at a time as a vector has lanes, whose partial sums are added up together
///     w += A^T g       four vectors of columns at a time, which stay in registers
///
/// Backward is the second of them after the first, over an A that may be larger than a cache: it begins with the last
/// rows, those that are still there.

#include <simplx/cpu/transpose.hpp>

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Lane i of the result is the sum of vector i, of lanes<S> vectors, which are used up.
template <class S>
__attribute__((always_inline)) inline Vec<S> lane_sums(Vec<S>* vectors) {
  constexpr int count = lanes<S>;
  constexpr auto sequence = std::make_integer_sequence<int, count>();
  SIMPLX_UNROLL
  for (int half = count / 2; half > 0; half /= 2) {
    SIMPLX_UNROLL
    for (int i = 0; i < half; ++i) {
      const Vec<S> a = vectors[i], b = vectors[i + half];
      vectors[i] = interleave<0>(a, b, sequence) + interleave<count / 2>(a, b, sequence);
    }
  }
  return vectors[0];
}

/// The product of a row and a vector: its whole vectors lane by lane, and the elements that are left.
template <Index K, class S>
struct RowProduct {
  Vec<S> vectors{};
  S rest = S(0);

  __attribute__((always_inline)) RowProduct(const S* row, const S* w) {
    constexpr Index whole = K / lanes<S> * lanes<S>;
    for (Index k = 0; k < whole; k += lanes<S>) vectors += load<Vec<S>>(row + k) * load<Vec<S>>(w + k);
    for (Index k = whole; k < K; ++k) rest += row[k] * w[k];
  }
};

/// w[0 .. vectors * lanes) += A^T g for those columns of A.
template <Index K, int vectors, class S>
__attribute__((always_inline)) inline void add_columns(Index rows, const S* a, const S* g, S* w) {
  constexpr Index step = lanes<S>;
  Vec<S> sums[2][vectors]{};  // of even and odd rows, which need not wait for each other
  const auto add = [&](Index row, Vec<S>* to) __attribute__((always_inline)) {
    const Vec<S> factor = splat<Vec<S>>(g[row]);
    SIMPLX_UNROLL
    for (int v = 0; v < vectors; ++v) to[v] += factor * load<Vec<S>>(a + row * K + v * step);
  };
  Index row = rows;
  for (; row >= 2; row -= 2) add(row - 1, sums[0]), add(row - 2, sums[1]);
  if (row > 0) add(0, sums[0]);
  SIMPLX_UNROLL
  for (int v = 0; v < vectors; ++v) store(w + v * step, Vec<S>(load<Vec<S>>(w + v * step) + (sums[0][v] + sums[1][v])));
}

/// y = A w; rows of A may be part of longer ones, `stride` elements apart.
///
/// Shapes  A (rows, K), w (K), y (rows)
/// Cost    2 rows K FLOPs, one pass over A
template <Index K, Index stride = K, class S>
__attribute__((noinline)) void matrix_vector(Index rows, const S* a, const S* w, S* y) {
  constexpr Index group = lanes<S>;
  Index row = 0;
  for (; row + group <= rows; row += group, a += group * stride) {
    Vec<S> sums[group];
    S rest[group];
    SIMPLX_UNROLL
    for (Index i = 0; i < group; ++i) {
      const RowProduct<K, S> product(a + i * stride, w);
      sums[i] = product.vectors;
      rest[i] = product.rest;
    }
    Vec<S> total = lane_sums<S>(sums);
    if constexpr (K % group != 0) total += load<Vec<S>>(rest);
    store(y + row, total);
  }
  for (row = rows - rows % group; row < rows; ++row, a += stride) {  // g++ sees that none is left where none is
    const RowProduct<K, S> product(a, w);
    y[row] = sum(product.vectors) + product.rest;
  }
}

template <Index K, class S>
void add_transposed_rows(Index rows, const S* a, const S* g, S* w) {
  constexpr Index step = lanes<S>, wide = 4 * step, whole = K / step * step, widest = K / wide * wide;
  for (Index k = 0; k < widest; k += wide) add_columns<K, 4>(rows, a + k, g, w + k);
  for (Index k = widest; k < whole; k += step) add_columns<K, 1>(rows, a + k, g, w + k);
  if constexpr (whole < K) {
    S sums[K - whole]{};
    for (Index row = 0; row < rows; ++row) {
      for (Index k = whole; k < K; ++k) sums[k - whole] += a[row * K + k] * g[row];
    }
    for (Index k = whole; k < K; ++k) w[k] += sums[k - whole];
  }
}

/// w += A^T g.
///
/// Shapes  A (rows, K), g (rows), w (K)
/// Cost    2 rows K FLOPs; reads A once, so many rows at a time that their sum is as accurate as each, and of those a
///         stripe of columns after the other, each from its end
template <Index K, class S>
__attribute__((noinline)) void add_transposed_matrix_vector(Index rows, const S* a, const S* g, S* w) {
  constexpr Index step = 4096;
  for (Index begin = 0; begin < rows; begin += step) {
    add_transposed_rows<K>(std::min(step, rows - begin), a + begin * K, g + begin, w);
  }
}

}  // namespace simplx::cpu
