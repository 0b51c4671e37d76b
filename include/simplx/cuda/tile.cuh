// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/tile.cuh
/// Matrices in shared memory and the two products that attention is made of: X Y^T, of rows, and W Y.
///
/// Of a product with r rows, 2 r threads have a part each, which stays in registers: four rows, and every eighth of
/// the columns, n of them; of W Y every eighth four of columns. So a thread reads n + 4 fours of X and Y for each 16 n
/// of its multiply-adds. A warp reads fours side by side or in rows below one another, free of bank conflicts.
/// Neighbours read the same of Y, neighbours but one the same of X: half the requests (NVIDIA's forum, thread 77228).

#include <simplx/cuda/reduce.cuh>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// Four neighbours of a row: what one load of shared memory brings.
template <class S>
struct alignas(16) Four {
  S of[4];
};

template <int cols>
inline constexpr int fours = (cols + 3) / 4;

/// A matrix in shared memory; columns are padded to fours, and fours to an odd number: eight rows below one another
/// begin in different banks.
template <class S, int rows, int cols>
struct Tile {
  Four<S> at[rows][fours<cols> | 1];

  __device__ S& operator()(int row, int col) { return at[row][col / 4].of[col % 4]; }
};

/// The part of a thread: rows own_row(0 .. own_rows - 1); columns, or fours of them, own_col(0), own_col(1), ...
inline constexpr int own_rows = 4, col_lanes = 8, row_lanes = warp_lanes / col_lanes;

__device__ inline int own_row(int a) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % warp_lanes;
  return thread / warp_lanes * (own_rows * row_lanes) + a * row_lanes + lane / 16 * 2 + lane % 2;
}
__device__ inline int own_col(int b) { return b * col_lanes + static_cast<int>(threadIdx.x) / 2 % col_lanes; }

/// The own part of X Y^T, (rows, cols), and of W Y, (rows, width).
template <class S, int cols>
using OwnScores = S[own_rows][cols / col_lanes];
template <int width>
inline constexpr int own_fours = (fours<width> + col_lanes - 1) / col_lanes;
template <class S, int width>
using OwnProduct = Four<S>[own_rows][own_fours<width>];

/// Calls f(a, b, row, col) for the own elements of X Y^T.
template <int cols, class F>
__device__ __forceinline__ void each_score(const F& f) {
  SIMPLX_UNROLL
  for (int a = 0; a < own_rows; ++a) {
    SIMPLX_UNROLL
    for (int b = 0; b < cols / col_lanes; ++b) f(a, b, own_row(a), own_col(b));
  }
}

/// Calls f(a, row, col, value) for the own elements of W Y in the first `rows` rows.
template <int width, class S, class F>
__device__ __forceinline__ void each_own(OwnProduct<S, width>& product, int rows, const F& f) {
  SIMPLX_UNROLL
  for (int a = 0; a < own_rows; ++a) {
    if (own_row(a) >= rows) continue;
    SIMPLX_UNROLL
    for (int c = 0; c < own_fours<width>; ++c) {
      SIMPLX_UNROLL
      for (int e = 0; e < 4; ++e) {
        const int col = 4 * own_col(c) + e;
        if (col < width) f(a, own_row(a), col, product[a][c].of[e]);
      }
    }
  }
}

/// The sum of the parts that col_lanes lanes have of a row, the same bits in each of them; the largest of the parts.
template <class S>
__device__ S row_sum(S value) {
  for (int bits = col_lanes; bits > 1; bits /= 2) value += __shfl_xor_sync(whole_warp, value, bits);
  return value;
}
template <class S>
__device__ S row_max(S value) {
  for (int bits = col_lanes; bits > 1; bits /= 2) {
    const S other = __shfl_xor_sync(whole_warp, value, bits);
    value = other > value ? other : value;
  }
  return value;
}

/// tile = factor * matrix; beyond the rows that there are, and in the padding, zero.
template <int threads, class S, int rows, int cols>
__device__ void load_tile(Tile<S, rows, cols>& tile, const S* matrix, Index stride, int rows_there, S factor = S(1)) {
  constexpr int padded = 4 * fours<cols>;
  SIMPLX_UNROLL
  for (int i = static_cast<int>(threadIdx.x); i < rows * padded; i += threads) {
    const int row = i / padded, col = i % padded;
    tile(row, col) = row < rows_there && col < cols ? matrix[row * stride + col] * factor : S(0);
  }
}

/// sums = X Y^T.
template <class S, int rows, int cols, int width>
__device__ void multiply_rows(const Tile<S, rows, width>& x, const Tile<S, cols, width>& y,
                              OwnScores<S, cols>& sums) {
  constexpr int own_cols = cols / col_lanes;
  each_score<cols>([&](int a, int b, int, int) { sums[a][b] = 0; });
  for (int k = 0; k < fours<width>; ++k) {
    Four<S> of_x[own_rows], of_y[own_cols];
    SIMPLX_UNROLL
    for (int a = 0; a < own_rows; ++a) of_x[a] = x.at[own_row(a)][k];
    SIMPLX_UNROLL
    for (int b = 0; b < own_cols; ++b) of_y[b] = y.at[own_col(b)][k];
    SIMPLX_UNROLL
    for (int e = 0; e < 4; ++e) {
      each_score<cols>([&](int a, int b, int, int) { sums[a][b] += of_x[a].of[e] * of_y[b].of[e]; });
    }
  }
}

/// sums += W Y, in ascending order of the rows of Y.
template <class S, int rows, int count, int width>
__device__ void add_product(const Tile<S, rows, count>& w, const Tile<S, count, width>& y, OwnProduct<S, width>& sums) {
  for (int k = 0; k < count; k += 4) {
    Four<S> of_w[own_rows];
    SIMPLX_UNROLL
    for (int a = 0; a < own_rows; ++a) of_w[a] = w.at[own_row(a)][k / 4];
    SIMPLX_UNROLL
    for (int e = 0; e < 4; ++e) {
      SIMPLX_UNROLL
      for (int c = 0; c < own_fours<width>; ++c) {
        if (fours<width> % col_lanes != 0 && own_col(c) >= fours<width>) continue;
        const Four<S> of_y = y.at[k + e][own_col(c)];
        SIMPLX_UNROLL
        for (int a = 0; a < own_rows; ++a) {
          SIMPLX_UNROLL
          for (int f = 0; f < 4; ++f) sums[a][c].of[f] += of_w[a].of[e] * of_y.of[f];
        }
      }
    }
  }
}

}  // namespace detail

}  // namespace simplx
