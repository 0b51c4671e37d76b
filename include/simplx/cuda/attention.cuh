// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/attention.cuh
/// Multi-head attention of cpu/attention_size.hpp, in memory linear in the context:
///
///   O = alpha V + (beta A V - gamma C V),   A = softmax(Q K^T / sqrt(key_width) + mask - slope |i - j|)
///
/// A block has some rows of queries, its tile, and passes over tiles of keys and values. It knows the largest score and
/// the sum of exponentials of what it has seen, and scales sum and product anew when a larger score comes (Dao et al.
/// 2022, Algorithm 1). C is A at Q = 0, so C V needs no scores: with lambda = exp(-slope)
///
///   (C V)_i = (P_i + N_i) / Z_i      P_i = lambda P_{i-1} + v_i,  N_i = lambda (N_{i+1} + v_{i+1}) or 0 if causal
///
/// is a pass over V of its own. Without slopes both add the rows of V in ascending order: where all scores are zero
/// they have the same bits, and alpha = beta = gamma = 1 is the identity.

#include <simplx/cpu/attention_size.hpp>
#include <simplx/cuda/tile.cuh>

#include <cmath>
#include <limits>
#include <type_traits>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// The size as a type, for kernels: of those with a parameter of class type nvcc 13 writes stubs that do not compile.
template <int heads, int key_width, int value_width, Mixing mixing, Mask mask, bool alibi>
struct SizeType {
  static constexpr AttentionSize size{heads, key_width, value_width, mixing, mask, alibi};
};
template <AttentionSize size>
using SizeTypeOf = SizeType<size.heads, size.key_width, size.value_width, size.mixing, size.mask, size.alibi>;

/// What one block attends with: a head of a sequence. Blocks of the grid: (tiles * sequences, heads).
template <AttentionSize size, class S>
struct HeadOfBlock {
  static constexpr int gains = size.mixing == Mixing::softmax ? 0 : size.mixing == Mixing::skip_init ? 2 : 3;
  static constexpr bool causal = size.mask == Mask::causal, centred = gains > 2;
  static constexpr S unseen = -std::numeric_limits<S>::infinity();  // the score of a key that is masked
  static constexpr Index key_stride = Index(size.heads) * size.key_width;
  static constexpr Index value_stride = Index(size.heads) * size.value_width;

  Index first;        ///< token of the sequence
  int rows, h, tile;  ///< tokens of the sequence; head; number of the block within both
  S alpha = 0, beta = 1, gamma = 0, slope = 0;

  __device__ HeadOfBlock(const Index* offsets, Index sequences, const AttentionOperands<S>& in)
      : h(static_cast<int>(blockIdx.y)), tile(static_cast<int>(blockIdx.x / sequences)) {
    const Index s = blockIdx.x % sequences;
    first = offsets[s];
    rows = static_cast<int>(offsets[s + 1] - first);
    if constexpr (gains > 0) alpha = in.alpha[h], beta = in.beta[h];
    if constexpr (centred) gamma = in.gamma[h];
    if constexpr (size.alibi) slope = in.slopes[h];
  }

  /// The number of the tile if those that see the most keys, the last, begin first.
  __device__ int tile_from_last(Index sequences) const { return static_cast<int>(gridDim.x / sequences) - 1 - tile; }

  /// Where a row of this head is in (tokens, heads * width) and in (tokens, heads).
  __device__ Index key_at(int row) const { return (first + row) * key_stride + Index(h) * size.key_width; }
  __device__ Index value_at(int row) const { return (first + row) * value_stride + Index(h) * size.value_width; }
  __device__ Index row_at(int row) const { return (first + row) * size.heads + h; }

  __device__ static S scale() { return S(1) / std::sqrt(S(size.key_width)); }
  /// Whether query i sees key j.
  __device__ bool sees(int i, int j) const { return j < rows && (!causal || j <= i); }
  /// Keys, from the first on, that queries before `end` see.
  __device__ int keys_seen(int end) const { return causal && end < rows ? end : rows; }
  __device__ S bias(int i, int j) const { return size.alibi ? -slope * S(i < j ? j - i : i - j) : S(0); }
  /// A_ij, and C_ij of the row's 1 / Z_i.
  __device__ S weight(S score, S log_sum, int i, int j) const {
    return sees(i, j) ? std::exp(score + bias(i, j) - log_sum) : S(0);
  }
  __device__ S mean_weight(S inverse, int i, int j) const {
    return sees(i, j) ? (size.alibi ? std::exp(bias(i, j)) * inverse : inverse) : S(0);
  }

  /// Z_i, the sum of exp(bias) over the keys that query i sees: geometric series to both sides.
  __device__ S mean_sum(int i) const { return mean_sum(slope, i, rows); }
  __device__ static S mean_sum(S slope, int i, int rows) {
    if (causal) return series(slope, i + 1);
    return size.alibi ? series(slope, i + 1) + series(slope, rows - i) - 1 : S(rows);
  }
  /// 1 + lambda + ... of so many terms.
  __device__ static S series(S slope, int terms) {
    return slope == 0 ? S(terms) : std::expm1(-slope * S(terms)) / std::expm1(-slope);
  }
};

/// The tiles of a block of the forward pass: its own queries, and the keys and values that pass by.
template <AttentionSize size, class S, int own_count, int other_count>
struct ForwardTiles {
  static constexpr int own = own_count, others = other_count, threads = 2 * own;
  Tile<S, own, size.key_width> query;
  Tile<S, others, size.key_width> key;
  Tile<S, others, size.value_width> value;
  Tile<S, own, others> weights;
};

/// The largest tiles, from 64 and 32 rows on, that shared memory holds; 512 bytes of it are left to sums over blocks.
template <template <AttentionSize, class, int, int> class Tiles, AttentionSize size, class S, int own = 64,
          int others = 32>
constexpr auto fitting_tiles() {
  using These = Tiles<size, S, own, others>;
  static_assert(others >= col_lanes, "simplx: heads are too wide for the shared memory of a block");
  if constexpr (sizeof(These) <= (48 << 10) - 512 || others < col_lanes) {
    return std::type_identity<These>{};
  } else if constexpr (2 * others == own) {
    return fitting_tiles<Tiles, size, S, own, others / 2>();
  } else {
    return fitting_tiles<Tiles, size, S, own / 2, others>();
  }
}
template <template <AttentionSize, class, int, int> class Tiles, AttentionSize size, class S>
using FittingTiles = typename decltype(fitting_tiles<Tiles, size, S>())::type;

/// out = alpha V + beta A V - gamma mean, where `out` holds the mean before.
template <class Sized, class S>
__global__ void __launch_bounds__(FittingTiles<ForwardTiles, Sized::size, S>::threads)
    attention_kernel(const Index* offsets, Index sequences, AttentionOperands<S> in, S* out, S* log_sum_exp) {
  constexpr AttentionSize size = Sized::size;
  using Head = HeadOfBlock<size, S>;
  using Tiles = FittingTiles<ForwardTiles, size, S>;
  const Head head(offsets, sequences, in);
  const int begin = head.tile_from_last(sequences) * Tiles::own, rows = head.rows - begin;
  if (rows <= 0) return;  // the whole block
  SIMPLX_SHARED(tiles, Tiles);
  load_tile<Tiles::threads>(tiles.query, in.query + head.key_at(begin), Head::key_stride, rows, Head::scale());
  S highest[own_rows], total[own_rows] = {};  // of the scores seen; of their exponentials, the own columns
  SIMPLX_UNROLL
  for (int a = 0; a < own_rows; ++a) highest[a] = Head::unseen;
  OwnProduct<S, size.value_width> product = {};

  const int end = head.keys_seen(begin + Tiles::own);
  for (int key = 0; key < end; key += Tiles::others) {
    load_tile<Tiles::threads>(tiles.key, in.key + head.key_at(key), Head::key_stride, head.rows - key);
    load_tile<Tiles::threads>(tiles.value, in.value + head.value_at(key), Head::value_stride, head.rows - key);
    __syncthreads();
    OwnScores<S, Tiles::others> scores;
    multiply_rows(tiles.query, tiles.key, scores);
    S largest[own_rows];
    SIMPLX_UNROLL
    for (int a = 0; a < own_rows; ++a) largest[a] = highest[a];
    each_score<Tiles::others>([&](int a, int b, int row, int col) {
      const int i = begin + row, j = key + col;
      scores[a][b] = head.sees(i, j) ? scores[a][b] + head.bias(i, j) : Head::unseen;
      largest[a] = scores[a][b] > largest[a] ? scores[a][b] : largest[a];
    });
    SIMPLX_UNROLL
    for (int a = 0; a < own_rows; ++a) {
      largest[a] = row_max(largest[a]);  // finite: each row sees key 0, which is in the first tile
      const S shrink = std::exp(highest[a] - largest[a]);
      highest[a] = largest[a];
      total[a] *= shrink;
      for (Four<S>& four : product[a]) {
        for (S& sum : four.of) sum *= shrink;
      }
    }
    each_score<Tiles::others>([&](int a, int b, int row, int col) {
      const S weight = std::exp(scores[a][b] - highest[a]);
      total[a] += weight;
      tiles.weights(row, col) = weight;
    });
    __syncwarp();  // a warp reads no weights but its own
    add_product(tiles.weights, tiles.value, product);
    __syncthreads();
  }

  S inverse[own_rows];
  SIMPLX_UNROLL
  for (int a = 0; a < own_rows; ++a) {
    total[a] = row_sum(total[a]);
    inverse[a] = S(1) / total[a];
    if (own_col(0) != 0 || own_row(a) >= rows) continue;
    log_sum_exp[head.row_at(begin + own_row(a))] = highest[a] + std::log(total[a]);
  }
  each_element<size.value_width>(product, rows, [&](int a, int row, int col, S sum) {
    const Index at = head.value_at(begin + row) + col;
    S result = sum * inverse[a];
    if constexpr (Head::gains > 0) result *= head.beta;
    if constexpr (Head::centred) result -= head.gamma * out[at];
    if constexpr (Head::gains > 0) result += head.alpha * in.value[at];
    out[at] = result;
  });
}

inline constexpr int mean_threads = 64;

/// mean = C V; a thread has a column of a sequence.
template <class Sized, class S>
__global__ void __launch_bounds__(mean_threads)
    attention_mean_kernel(const Index* offsets, const S* value, const S* slopes, S* mean) {
  constexpr AttentionSize size = Sized::size;
  using Head = HeadOfBlock<size, S>;
  const Index col = static_cast<Index>(blockIdx.y) * mean_threads + static_cast<Index>(threadIdx.x);
  if (col >= Head::value_stride) return;
  const Index first = offsets[blockIdx.x];
  const int rows = static_cast<int>(offsets[blockIdx.x + 1] - first);
  const S slope = size.alibi ? slopes[col / size.value_width] : S(0);
  const S shrink = -std::expm1(-slope);  // 1 - lambda: exact where lambda, near one, has lost the slope's last digits
  const auto shrunk = [&](S x) { return size.alibi ? x - x * shrink : x; };
  const auto at = [&](int row) { return (first + row) * Head::value_stride + col; };
  /// Calls f(i, row, v) for all rows from `begin`, up or down.
  const auto each_row = [&](int begin, int step, const auto& f) {
    constexpr int ahead = 32;  // rows whose loads are on the way while others are added
    for (int done = 0; done < rows; done += ahead) {
      S loaded[ahead];
      SIMPLX_UNROLL
      for (int k = 0; k < ahead; ++k) {
        if (done + k < rows) loaded[k] = value[at(begin + step * (done + k))];
      }
      SIMPLX_UNROLL
      for (int k = 0; k < ahead; ++k) {
        if (done + k < rows) f(begin + step * (done + k), loaded[k]);
      }
    }
  };
  S sum = 0;
  if constexpr (Head::causal || size.alibi) {
    each_row(0, 1, [&](int i, S v) {
      sum = shrunk(sum) + v;
      mean[at(i)] = sum * (S(1) / Head::mean_sum(slope, i, rows));
    });
  }
  if constexpr (!Head::causal && size.alibi) {
    sum = 0;
    each_row(rows - 1, -1, [&](int i, S v) {
      mean[at(i)] += sum * (S(1) / Head::mean_sum(slope, i, rows));
      sum = shrunk(sum + v);
    });
  }
  if constexpr (!Head::causal && !size.alibi) {
    each_row(0, 1, [&](int, S v) { sum += v; });
    const S of_all = sum * (S(1) / S(rows));
    for (int i = 0; i < rows; ++i) mean[at(i)] = of_all;
  }
}

}  // namespace detail

/// The forward pass; fills `out` and `log_sum_exp`. Sequence s has the tokens offsets[s] .. offsets[s + 1], at most
/// `longest` of them.
///
/// Shapes  offsets (sequences + 1), on the device; out as value; log_sum_exp (tokens, heads), kept for the backward
/// Cost    T^2 (key_width + value_width) multiply-adds per head and sequence, half of them if causal; no scratch
/// Source  He & Hofmann 2024, Eqs. (1), (4), (5) and (13); Dao et al. 2022, Algorithm 1
template <AttentionSize size, class S>
void attention(cudaStream_t stream, const Index* offsets, Index sequences, Index longest,
               const AttentionOperands<S>& in, S* out, S* log_sum_exp) {
  using Tiles = detail::FittingTiles<detail::ForwardTiles, size, S>;
  if constexpr (size.mixing == Mixing::shaped) {
    constexpr Index columns = detail::HeadOfBlock<size, S>::value_stride;
    launch(stream, detail::attention_mean_kernel<detail::SizeTypeOf<size>, S>,
           dim3(blocks_for(sequences, 1), blocks_for(columns, detail::mean_threads)), detail::mean_threads, offsets,
           in.value, in.slopes, out);
  }
  launch(stream, detail::attention_kernel<detail::SizeTypeOf<size>, S>,
         dim3(blocks_for(longest, Tiles::own) * blocks_for(sequences, 1), size.heads), Tiles::threads, offsets,
         sequences, in, out, log_sum_exp);
}

}  // namespace simplx
