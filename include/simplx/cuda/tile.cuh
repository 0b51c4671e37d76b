// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/tile.cuh
/// Matrices in shared memory and the two products that attention is made of, X Y^T, of rows, and W Y, by CUDA cores:
/// exact arithmetic in S. tensor_cores.cuh has the same names for products of bfloat16.
///
/// Of a product with r rows, 2 r threads have a part each, which stays in registers: four rows, and every eighth of
/// the columns, n of them; of W Y every eighth four of columns. So a thread reads n + 4 fours of X and Y for each 16 n
/// of its multiply-adds. A warp reads fours side by side or in rows below one another, free of bank conflicts.
/// Neighbours read the same of Y, neighbours but one the same of X: half the requests (NVIDIA's forum, thread 77228).

#include <simplx/cuda/number.cuh>
#include <simplx/cuda/reduce.cuh>

#include <cmath>
#include <numeric>

namespace simplx::inline SIMPLX_TARGET::gpu {

/// Four neighbours of a row: what one load of shared memory brings.
template <class S>
struct alignas(16) Four {
  S of[4];
};

template <int cols>
inline constexpr int fours = (cols + 3) / 4;

/// Combines the values of so many lanes that are `apart` from each other; the same bits in each of them.
template <int lanes, class T, class F>
__device__ T over_lanes(T value, int apart, const F& combine) {
  for (int bits = apart * lanes / 2; bits >= apart; bits /= 2) {
    value = combine(value, __shfl_xor_sync(whole_warp, value, bits));
  }
  return value;
}

/// Calls f(row, below, part) for the thread's share of rows * parts parts, that of row + below; neighbours go to
/// neighbouring threads. The compiler knows how many they are, and where `threads` are whole rows, that only `below`
/// differs, by constants: what the thread adds to one address.
template <int threads, int rows, int parts, class F>
__device__ __forceinline__ void each_part(const F& f) {
  constexpr int whole = rows * parts / threads;
  const int thread = static_cast<int>(threadIdx.x);
  if constexpr (threads % parts == 0) {
    const int row = thread / parts, part = thread % parts;
    SIMPLX_UNROLL
    for (int n = 0; n < whole; ++n) f(row, n * (threads / parts), part);
  } else {
    SIMPLX_UNROLL
    for (int n = 0; n < whole; ++n) f((thread + n * threads) / parts, 0, (thread + n * threads) % parts);
  }
  if constexpr (rows * parts % threads != 0) {
    const int i = thread + whole * threads;
    if (i < rows * parts) f(i / parts, 0, i % parts);
  }
}

template <class S>
struct CudaCores {
  using Number = S;
  /// A matrix in shared memory; columns are padded to fours, and fours to an odd number: eight rows below one another
  /// begin in different banks.
  template <int rows, int cols>
  struct Tile {
    Four<S> at[rows][fours<cols> | 1];

    __device__ S& operator()(int row, int col) { return at[row][col / 4].of[col % 4]; }
  };
  /// Where W goes on its way into W Y.
  template <int rows, int cols>
  using Weights = Tile<rows, cols>;

  /// Places for tiles that are passed over: with two the next one arrives while one is in use. Here it goes through
  /// registers, for which a thread waits: a second place would gain nothing.
  static constexpr int places = 1;
  /// Rows of a tile that is passed over, at most and at least.
  static constexpr int most_others = 32, least_others = 8;
  /// Numbers that the threads of a row can hold in registers; more of them have been seen to spill.
  static constexpr int most_held = 1 << 20;
  /// Blocks of a multiprocessor at once, where so many numbers are held, and of them are sums; to make room for more
  /// ptxas would rather spill.
  template <int held, int sums, int threads>
  static constexpr int blocks = 2;
  /// Bytes of shared memory for all tiles.
  static constexpr std::size_t most_shared = std::size_t(48) << 10;
  /// Whether loads go past registers, so that threads need not wait for them.
  static constexpr bool copies = false;
  /// Whether sums over V of weights one are better taken beside those of attention, by the same instructions.
  static constexpr bool means_beside = false;

  /// Cores whose warps have more rows than those of these, if there are such.
  using Wide = CudaCores;
  /// Whether four warps multiply together, and so have the same to do.
  static constexpr bool by_groups = false;

  /// The part of a thread: rows own_row(0 .. own_rows - 1); columns, or fours of them, own_col(0), own_col(1), ...
  static constexpr int own_rows = 4, col_lanes = 8, row_lanes = warp_lanes / col_lanes;
  static constexpr int warp_rows = own_rows * row_lanes;
  template <int cols>
  static constexpr int own_cols = cols / col_lanes;
  template <int width>
  static constexpr int own_fours = (fours<width> + col_lanes - 1) / col_lanes;

  /// The first row of the warp.
  __device__ static int warp_row() { return static_cast<int>(threadIdx.x) / warp_lanes * warp_rows; }
  /// Of those that multiply together.
  static constexpr int group_rows = warp_rows;
  __device__ static int group_row() { return warp_row(); }
  __device__ static int own_row(int a) {
    const int lane = static_cast<int>(threadIdx.x) % warp_lanes;
    return warp_row() + a * row_lanes + lane / 16 * 2 + lane % 2;
  }
  __device__ static int own_col(int b) { return b * col_lanes + static_cast<int>(threadIdx.x) / 2 % col_lanes; }

  /// The own part of X Y^T, (rows, cols), and of W Y, (rows, width).
  template <int cols>
  using Scores = S[own_rows][own_cols<cols>];
  template <int width>
  using Product = Four<S>[own_rows][own_fours<width>];

  /// Calls f(a, b, row, col) for the own elements of X Y^T.
  template <int cols, class F>
  __device__ __forceinline__ static void each_score(const F& f) {
    SIMPLX_UNROLL
    for (int a = 0; a < own_rows; ++a) {
      SIMPLX_UNROLL
      for (int b = 0; b < own_cols<cols>; ++b) f(a, b, own_row(a), own_col(b));
    }
  }

  /// Neighbours of a row of W Y that a thread has, and that a buffer with such rows has on as many bytes.
  template <int width>
  static constexpr int together = std::gcd(width, 4);

  /// Calls f(a, c, row, col) where the own neighbours in W Y begin, in the first `rows` rows; c counts those of a row.
  template <int width, class F>
  __device__ __forceinline__ static void each_own(int rows, const F& f) {
    SIMPLX_UNROLL
    for (int a = 0; a < own_rows; ++a) {
      if (own_row(a) >= rows) continue;
      SIMPLX_UNROLL
      for (int c = 0; c < own_fours<width>; ++c) {
        SIMPLX_UNROLL
        for (int e = 0; e < 4; e += together<width>) {
          const int col = 4 * own_col(c) + e;
          if (col < width) f(a, 4 * c + e, own_row(a), col);
        }
      }
    }
  }
  /// Those neighbours of W Y.
  template <int width>
  __device__ __forceinline__ static auto own(const Product<width>& product, int a, int c) {
    Numbers<S, together<width>> numbers;
    SIMPLX_UNROLL
    for (int k = 0; k < together<width>; ++k) numbers.of[k].value = product[a][c / 4].of[c % 4 + k];
    return numbers;
  }

  template <int width>
  __device__ __forceinline__ static void scale_row(Product<width>& product, int a, S factor) {
    for (Four<S>& four : product[a]) {
      for (S& sum : four.of) sum *= factor;
    }
  }

  /// A weight is power(x) of a score x in this unit, which e^score is power(unit * score) of.
  static constexpr S unit = 1;
  __device__ static S power(S x) { return std::exp(x); }

  /// Whether products round their factors, and a number as they see it.
  static constexpr bool rounds = false;
  __device__ static S as_factor(S x) { return x; }

  /// The sum of the parts that lanes have of a row; the largest of the parts.
  __device__ static S row_sum(S part) {
    return over_lanes<col_lanes>(part, 2, [](S x, S y) { return x + y; });
  }
  __device__ static S row_max(S part) {
    return over_lanes<col_lanes>(part, 2, [](S x, S y) { return std::fmax(x, y); });
  }

  /// A tile of a matrix that begins at an element of a buffer; zero beyond the rows that there are and in the padding.
  template <int threads, int rows, int cols>
  __device__ static void load(Tile<rows, cols>& tile, const S* buffer, Index first, Index stride, int rows_there) {
    constexpr int padded = 4 * fours<cols>;
    each_part<threads, rows, padded>([&](int row, int below, int col) {
      const S* const place = buffer + (first + row * stride + col) + below * stride;
      tile(row + below, col) = row + below < rows_there && col < cols ? *place : S(0);
    });
  }

  /// Waits for what the thread has loaded; a barrier after it lets others read that.
  __device__ static void arrive() {}

  /// sums = X Y^T.
  template <int rows, int cols, int width>
  __device__ static void multiply_rows(const Tile<rows, width>& x, const Tile<cols, width>& y, Scores<cols>& sums) {
    each_score<cols>([&](int a, int b, int, int) { sums[a][b] = 0; });
    for (int k = 0; k < fours<width>; ++k) {
      Four<S> of_x[own_rows], of_y[own_cols<cols>];
      SIMPLX_UNROLL
      for (int a = 0; a < own_rows; ++a) of_x[a] = x.at[own_row(a)][k];
      SIMPLX_UNROLL
      for (int b = 0; b < own_cols<cols>; ++b) of_y[b] = y.at[own_col(b)][k];
      SIMPLX_UNROLL
      for (int e = 0; e < 4; ++e) {
        each_score<cols>([&](int a, int b, int, int) { sums[a][b] += of_x[a].of[e] * of_y[b].of[e]; });
      }
    }
  }

  /// sums += W Y, in ascending order of the rows of Y.
  template <int rows, int count, int width>
  __device__ static void add_product(const Scores<count>& own, Weights<rows, count>& w, const Tile<count, width>& y,
                                     Product<width>& sums) {
    __syncwarp();  // a warp reads no weights but its own, and has read the last ones
    each_score<count>([&](int a, int b, int row, int col) { w(row, col) = own[a][b]; });
    __syncwarp();
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
};

/// Calls use(i, place) for the tiles at i = begin, begin + step, ... before `end`, which fill(i, place) loads: with two
/// places the next one while one is in use, and one barrier for a tile, not two.
template <class Cores, int places, class Fill, class Use>
__device__ __forceinline__ void each_tile(int begin, int end, int step, const Fill& fill, const Use& use) {
  int place = 0;
  if (begin < end) fill(begin, place);
  for (int i = begin; i < end; i += step) {
    const int next = i + step;
    Cores::arrive();
    __syncthreads();  // the tile is there, and nobody uses the one before
    if (places == 2 && next < end) fill(next, 1 - place);
    use(i, place);
    if constexpr (places == 1) {
      __syncthreads();
      if (next < end) fill(next, place);
    } else {
      place = 1 - place;
    }
  }
  if constexpr (places == 2) __syncthreads();  // before whoever loads next
}

}  // namespace simplx::gpu
