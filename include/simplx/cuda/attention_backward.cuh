// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/attention_backward.cuh
/// The pull-back of attention.cuh. With dM = dO V^T and the correction D = rowsum(A * dM):
///
///   dV = (alpha I + beta A - gamma C)^T dO;   dalpha = sum(I * dM), dbeta = sum(D), dgamma = -sum(C * dM)
///   dS = beta A * (dM - D);   dQ = dS K / sqrt(key_width);   dK = dS^T Q / sqrt(key_width)
///
/// Nothing of T x T is stored and nothing is added by atomics. Blocks of a first kernel have a tile of queries and pass
/// over the keys, for D and then for dQ; those of a second have a tile of keys and pass over the queries, for dK and
/// dV. Each block of the first writes a part of the gradients of the gains, and add_column_sums adds the parts.

#include <simplx/cuda/attention.cuh>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// The tiles of a block of either kernel: its own rows, queries and dO or keys and values, and those that pass by.
template <class Size, class Cores, int own_count, int other_count>
struct BackwardTiles {
  static constexpr int own = own_count, others = other_count, threads = 2 * own;
  static constexpr int held = 2 * others + Size::key_width + Size::value_width;
  typename Cores::template Tile<own, Size::key_width> own_keys;
  typename Cores::template Tile<own, Size::value_width> own_values;
  typename Cores::template Tile<others, Size::key_width> other_keys;
  typename Cores::template Tile<others, Size::value_width> other_values;
  typename Cores::template Weights<own, others> weights;
};

/// D and dQ for a tile of queries, and its part of the gradients of the gains.
///
/// Shapes  corrections (tokens, heads); gain_parts (gains, blocks, heads)
template <class Size, class Cores, Write dq_mode, class Operands, class S, class DQuery>
__global__ void __launch_bounds__(FittingTiles<BackwardTiles, Size, Cores>::threads, attention_blocks)
    attention_dq_kernel(const Index* offsets, Index sequences, Operands in, const S* log_sum_exp,
                        const S* dout, DQuery* dquery, S* corrections, S* gain_parts) {
  using Head = HeadOfBlock<Size, S>;
  using Tiles = FittingTiles<BackwardTiles, Size, Cores>;
  using Scores = typename Cores::template Scores<Tiles::others>;
  constexpr int own_rows = Cores::own_rows, others = Tiles::others, threads = Tiles::threads, gains = Size::gains;
  const Head head(offsets, sequences, in);
  const int begin = head.tile_from_last(sequences) * Tiles::own, rows = head.rows - begin;
  S gain_sums[3] = {};  // of alpha, beta, gamma
  const auto write_gains = [&] {
    for (int gain = 0; gain < gains; ++gain) {
      gain_parts[(Index(gain) * gridDim.x + blockIdx.x) * Size::heads + head.h] = gain_sums[gain];
    }
  };
  if (rows <= 0) {  // the whole block
    if (threadIdx.x == 0) write_gains();
    return;
  }
  SIMPLX_SHARED(tiles, Tiles);
  Cores::template load<threads>(tiles.own_keys, in.query, head.key_at(begin), Size::key_stride, rows);
  Cores::template load<threads>(tiles.own_values, dout, head.value_at(begin), Size::value_stride, rows);
  S log_sum[own_rows], inverse_mean[own_rows];  // finite where no row is: dO is zero there
  SIMPLX_UNROLL
  for (int a = 0; a < own_rows; ++a) {
    const int i = begin + Cores::own_row(a);
    const bool there = i < head.rows;
    log_sum[a] = there ? log_sum_exp[head.row_at(i)] : S(0);
    if constexpr (Size::centred) inverse_mean[a] = there ? S(1) / head.mean_sum(i) : S(0);
  }

  /// Passes over the keys that the tile sees; calls use(key, A, dM) with tiles of keys and values in place.
  const int end = head.keys_seen(begin + Tiles::own);
  const auto each_tile = [&](const auto& use) {
    for (int key = 0; key < end; key += others) {
      const int left = head.rows - key;
      Cores::template load<threads>(tiles.other_keys, in.key, head.key_at(key), Size::key_stride, left);
      Cores::template load<threads>(tiles.other_values, in.value, head.value_at(key), Size::value_stride, left);
      __syncthreads();
      Scores weights, d_weights;
      Cores::multiply_rows(tiles.own_keys, tiles.other_keys, weights);
      Cores::multiply_rows(tiles.own_values, tiles.other_values, d_weights);
      Cores::template each_score<others>([&](int a, int b, int row, int col) {
        weights[a][b] = head.weight(weights[a][b], log_sum[a], begin + row, key + col);
      });
      use(key, weights, d_weights);
      __syncthreads();
    }
  };

  S correction[own_rows] = {}, total[own_rows] = {};
  each_tile([&](int key, const Scores& weights, const Scores& d_weights) {
    Cores::template each_score<others>([&](int a, int b, int row, int col) {
      const S d_weight = d_weights[a][b];
      correction[a] += weights[a][b] * d_weight;
      total[a] += weights[a][b];
      if constexpr (gains > 0) gain_sums[0] += begin + row == key + col ? d_weight : S(0);
      if constexpr (gains > 2) gain_sums[2] -= head.mean_weight(inverse_mean[a], begin + row, key + col) * d_weight;
    });
  });
  SIMPLX_UNROLL
  for (int a = 0; a < own_rows; ++a) {
    // The total is one, but for the rounding of a large log_sum: dM - D must cancel where A is one.
    correction[a] = Cores::row_sum(correction[a]) / Cores::row_sum(total[a]);
    if (Cores::own_col(0) != 0 || Cores::own_row(a) >= rows) continue;
    corrections[head.row_at(begin + Cores::own_row(a))] = correction[a];
    gain_sums[1] += correction[a];
  }
  if constexpr (gains > 0) {
    block_sum<Tiles::threads>(gain_sums);
    if (threadIdx.x == 0) write_gains();
  }

  if constexpr (dq_mode != Write::skip) {
    typename Cores::template Product<Size::key_width> product = {};
    each_tile([&](int, Scores& weights, const Scores& d_weights) {
      Cores::template each_score<others>([&](int a, int b, int, int) {
        weights[a][b] = head.beta * weights[a][b] * (d_weights[a][b] - correction[a]);
      });
      Cores::add_product(weights, tiles.weights, tiles.other_keys, product);
    });
    Cores::template each_own<Size::key_width>(product, rows, [&](int, int, int row, int col, S sum) {
      write<dq_mode>(dquery[head.key_at(begin + row) + col], sum * Head::scale());
    });
  }
}

/// dK and dV for a tile of keys.
///
/// Shapes  corrections (tokens, heads)
template <class Size, class Cores, Write dk_mode, Write dv_mode, class Operands, class S, class DKey, class DValue>
__global__ void __launch_bounds__(FittingTiles<BackwardTiles, Size, Cores>::threads, attention_blocks)
    attention_dk_dv_kernel(const Index* offsets, Index sequences, Operands in, const S* log_sum_exp,
                           const S* dout, const S* corrections, DKey* dkey, DValue* dvalue) {
  using Head = HeadOfBlock<Size, S>;
  using Tiles = FittingTiles<BackwardTiles, Size, Cores>;
  constexpr int others = Tiles::others, threads = Tiles::threads, own_cols = Cores::template own_cols<others>;
  const Head head(offsets, sequences, in);
  const int begin = head.tile * Tiles::own, rows = head.rows - begin;
  if (rows <= 0) return;  // the whole block
  SIMPLX_SHARED(tiles, Tiles);
  Cores::template load<threads>(tiles.own_keys, in.key, head.key_at(begin), Size::key_stride, rows);
  if constexpr (dk_mode != Write::skip) {
    Cores::template load<threads>(tiles.own_values, in.value, head.value_at(begin), Size::value_stride, rows);
  }
  typename Cores::template Product<Size::key_width> dk = {};
  typename Cores::template Product<Size::value_width> dv = {};

  for (int query = Size::causal ? begin : 0; query < head.rows; query += others) {
    const int left = head.rows - query;
    Cores::template load<threads>(tiles.other_keys, in.query, head.key_at(query), Size::key_stride, left);
    Cores::template load<threads>(tiles.other_values, dout, head.value_at(query), Size::value_stride, left);
    S log_sum[own_cols], inverse_mean[own_cols], correction[own_cols];
    SIMPLX_UNROLL
    for (int b = 0; b < own_cols; ++b) {
      const int i = query + Cores::own_col(b);
      const bool there = i < head.rows;
      log_sum[b] = there ? log_sum_exp[head.row_at(i)] : S(0);
      if constexpr (dk_mode != Write::skip) correction[b] = there ? corrections[head.row_at(i)] : S(0);
      if constexpr (Size::centred) inverse_mean[b] = there ? S(1) / head.mean_sum(i) : S(0);
    }
    __syncthreads();
    typename Cores::template Scores<others> weights, d_scores;
    Cores::multiply_rows(tiles.own_keys, tiles.other_keys, weights);
    if constexpr (dk_mode != Write::skip) Cores::multiply_rows(tiles.own_values, tiles.other_values, d_scores);
    Cores::template each_score<others>([&](int a, int b, int row, int col) {
      const int i = query + col, j = begin + row;
      S& weight = weights[a][b];
      weight = head.beta * head.weight(weight, log_sum[b], i, j);
      if constexpr (dk_mode != Write::skip) d_scores[a][b] = weight * (d_scores[a][b] - correction[b]);
      if constexpr (Size::centred) weight -= head.gamma * head.mean_weight(inverse_mean[b], i, j);
    });
    if constexpr (dv_mode != Write::skip) Cores::add_product(weights, tiles.weights, tiles.other_values, dv);
    if constexpr (dk_mode != Write::skip) Cores::add_product(d_scores, tiles.weights, tiles.other_keys, dk);
    __syncthreads();
  }

  // One buffer of both gradients is as wide for the one as for the other: the same thread adds to a place, in turn.
  Cores::template each_own<Size::key_width>(dk, rows, [&](int, int, int row, int col, S sum) {
    if constexpr (dk_mode != Write::skip) write<dk_mode>(dkey[head.key_at(begin + row) + col], sum * Head::scale());
  });
  Cores::template each_own<Size::value_width>(dv, rows, [&](int, int, int row, int col, S sum) {
    const Index at = head.value_at(begin + row) + col;
    if constexpr (Size::gains > 0) sum += head.alpha * dout[at];
    if constexpr (dv_mode != Write::skip) write<dv_mode>(dvalue[at], sum);
  });
}

/// Blocks of either kernel for each head.
template <class Size, class Cores>
constexpr unsigned attention_backward_blocks(Index sequences, Index longest) {
  return blocks_for(longest, FittingTiles<BackwardTiles, Size, Cores>::own) * blocks_for(sequences, 1);
}

}  // namespace detail

/// Elements of scratch of attention_backward: the corrections of all rows, and parts of the gradients of gains.
template <AttentionSize size, class Cores>
constexpr Index attention_backward_scratch(Index tokens, Index sequences, Index longest) {
  using Size = detail::Fixed<size>;
  const Index blocks = detail::attention_backward_blocks<Size, Cores>(sequences, longest);
  return (Size::gains * blocks + tokens) * Size::heads;
}

/// The backward pass; computes the weights anew from `log_sum_exp`. The gradients of query, key and value may be
/// bfloat16 where they are stored.
///
/// Shapes  log_sum_exp and offsets as in attention; dout as out; scratch (attention_backward_scratch<size, Cores>(...))
/// Cost    T^2 (5 key_width + 4 value_width) multiply-adds per head and sequence, half of them if causal
/// Source  He & Hofmann 2024, Eqs. (1), (4), (5) and (13); Dao et al. 2022, Section 3.1
template <AttentionSize size, class Cores, Write dq_mode, Write dk_mode, Write dv_mode, class Operands, class S,
          class DQuery, class DKey, class DValue>
void attention_backward(cudaStream_t stream, const Index* offsets, Index sequences, Index longest,
                        const Operands& in, const S* log_sum_exp, const S* dout,
                        const AttentionGradients<S, DQuery, DKey, DValue>& to, S* scratch) {
  using Size = detail::Fixed<size>;
  constexpr int threads = detail::FittingTiles<detail::BackwardTiles, Size, Cores>::threads;
  const unsigned blocks = detail::attention_backward_blocks<Size, Cores>(sequences, longest);
  if (blocks == 0) return;
  const dim3 grid(blocks, Size::heads);
  const Index part = Index(blocks) * Size::heads;
  S* const corrections = scratch + Size::gains * part;
  if (dq_mode != Write::skip || dk_mode != Write::skip || to.alpha || to.beta || to.gamma) {
    launch(stream, detail::attention_dq_kernel<Size, Cores, dq_mode, Operands, S, DQuery>, grid, threads, offsets,
           sequences, in, log_sum_exp, dout, to.query, corrections, scratch);
  }
  if constexpr (dk_mode != Write::skip || dv_mode != Write::skip) {
    launch(stream, detail::attention_dk_dv_kernel<Size, Cores, dk_mode, dv_mode, Operands, S, DKey, DValue>, grid,
           threads, offsets, sequences, in, log_sum_exp, dout, corrections, to.key, to.value);
  }
  S* const gradients[] = {to.alpha, to.beta, to.gamma};
  for (int gain = 0; gain < Size::gains; ++gain) {
    if (gradients[gain]) {
      add_column_sums(stream, scratch + gain * part, static_cast<int>(blocks), Size::heads, gradients[gain]);
    }
  }
}

}  // namespace simplx
