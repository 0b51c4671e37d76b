// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/attention_backward.cuh
/// The pull-back of attention.cuh. With dM = dO V^T and the correction D = beta rowsum(A * dM):
///
///   dV = (alpha I + beta A - gamma C)^T dO;   dalpha = sum(I * dM), dbeta = sum(A * dM), dgamma = -sum(C * dM)
///   dS = A * (beta dM - D);   dQ = dS K / sqrt(key_width);   dK = dS^T Q / sqrt(key_width)
///
/// O is beta A V plus terms without scores: where O is kept, D needs neither a pass over the scores nor a division by
/// beta.
///
///   D = rowsum(dO * (O - alpha V)) + gamma rowsum(C * dM)
///
/// With dropout A * R stands for A in dV and R * dM for dM in dbeta, dS and D, which still follows from O.
///
/// Where beta is small this loses alpha / beta roundings of O: with gains O is not rounded, and cores that round no
/// factors rather take the pass.
///
/// Nothing of T x T is stored and nothing is added by atomics. Blocks of a first kernel have a tile of queries and pass
/// over the keys, for what D lacks and then for dQ; those of a second have a tile of keys and pass over the queries,
/// for dK and dV. Without ALiBi and windows what D lacks is a product with sums of whole tiles of V, which a kernel
/// before has taken, and a pass over the own tile. Each block of the first writes a part of the gradients of the gains,
/// and add_column_sums adds the parts.

#include <simplx/cuda/attention.cuh>

namespace simplx::inline SIMPLX_TARGET::gpu {

/// The tiles of a block of either kernel: its own rows, queries and dO or keys and values, and those that pass by.
template <class Size, class Warps, int own_count, int other_count, int place_count>
struct BackwardTiles {
  using Cores = Warps;
  static constexpr int own = own_count, others = other_count, places = place_count;
  static constexpr int threads = own / Cores::warp_rows * warp_lanes;
  /// Numbers that the threads of a row hold; what ALiBi needs of each score comes on top.
  static constexpr int held = (Size::alibi ? 3 : 2) * others + Size::key_width + Size::value_width, held_beside = 0;
  typename Cores::template Tile<own, Size::key_width> own_keys;
  typename Cores::template Tile<own, Size::value_width> own_values;
  typename Cores::template Tile<others, Size::key_width> other_keys[places];
  typename Cores::template Tile<others, Size::value_width> other_values[places];
  typename Cores::template Weights<own, others> weights;
};
/// Those of keys, with numbers of each query that passes by where copies bring them.
template <class Size, class Warps, int own, int others, int places>
struct KeyTiles : BackwardTiles<Size, Warps, own, others, places> {
  using Base = BackwardTiles<Size, Warps, own, others, places>;
  static constexpr int sums = (Size::alibi ? 3 : 2) * others + Size::key_width + Size::value_width;
  static constexpr int blocks = Warps::template blocks<Base::held, sums, Base::threads>;
  static constexpr int beside = Warps::copies ? others : 1;
  typename Warps::Number log_sum[places][beside], correction[places][beside], mean[places][beside];
};
/// Whether the sums over keys of C V need no more than the sums of values of whole tiles, but for the own one: without
/// ALiBi C_ij is 1 / Z_i of each key that i sees.
template <class Size, class Cores>
inline constexpr bool flat_means = Size::centred && !Size::alibi && Size::window == 0 && Cores::means_beside;

/// Those of queries, with the sum of the values of the tiles before, or if not causal of all.
template <class Size, class Warps, int own, int others, int places>
struct QueryTiles : BackwardTiles<Size, Warps, own, others, places> {
  using Base = BackwardTiles<Size, Warps, own, others, places>;
  static constexpr int sums = (Size::alibi ? 3 : 2) * others + Size::key_width;
  static constexpr int blocks = Warps::template blocks<Base::held, sums, Base::threads>;
  alignas(16) typename Warps::Number values_before[flat_means<Size, Warps> ? Size::value_width : 1];
};

template <class Size, class Cores>
using FittingQueryTiles = typename decltype(best_tiles<QueryTiles, Size, Cores>())::type;
template <class Size, class Cores>
using FittingKeyTiles = typename decltype(best_tiles<KeyTiles, Size, Cores>())::type;

/// As products see them.
template <class Cores, class S, int count>
__device__ __forceinline__ Numbers<S, count> as_factors(const Numbers<S, count>& numbers) {
  return Numbers<S, count>::each([](auto x) { return Number<S>(Cores::as_factor(x.value)); }, numbers);
}

inline constexpr int sums_threads = 128;
template <class Size>
inline constexpr int sums_columns = warp_lanes * std::gcd(Size::value_width, 4);  ///< of a block

/// sums (blocks, heads * value_width) = the sums of the values, as products see them, of each tile of so many rows,
/// numbered as blocks are.
template <class Size, class Cores, int own, class T, class S>
__global__ void __launch_bounds__(sums_threads)
    attention_sums_kernel(const Index* offsets, Index sequences, const T* value, S* sums) {
  constexpr int together = sums_columns<Size> / warp_lanes, teams = sums_threads / warp_lanes;
  SIMPLX_SHARED(parts, Neighbours<S, together>[teams][warp_lanes]);
  const Index s = blockIdx.x % sequences, first = offsets[s];
  const int begin = static_cast<int>(blockIdx.x / sequences) * own;
  const int rows = static_cast<int>(offsets[s + 1] - first), end = rows < begin + own ? rows : begin + own;
  const int lane = static_cast<int>(threadIdx.x) % warp_lanes, team = static_cast<int>(threadIdx.x) / warp_lanes;
  const int col = static_cast<int>(blockIdx.y) * sums_columns<Size> + lane * together;
  Numbers<S, together> total;
  for (int i = begin + team; i < end && col < Size::value_stride; i += teams) {
    total += as_factors<Cores>(load_numbers<together>(value + (first + i) * Size::value_stride + col));
  }
  store_numbers(parts[team][lane].of, total);
  __syncthreads();
  if (team != 0 || col >= Size::value_stride) return;
  for (int other = 1; other < teams; ++other) total += load_numbers<together>(parts[other][lane].of);
  store_numbers(sums + Index(blockIdx.x) * Size::value_stride + col, total);
}

/// D and dQ for a tile of queries, and its part of the gradients of the gains; Out is void where O is not kept.
///
/// Shapes  corrections (tokens, heads); gain_parts (gains, blocks, heads); sums (blocks, heads * value_width), of
///         values, where means are flat
template <class Size, class Cores, Write dq_mode, class Operands, class S, class Out, class DOut, class DQuery>
__global__ void __launch_bounds__(FittingQueryTiles<Size, Cores>::threads, FittingQueryTiles<Size, Cores>::blocks)
    attention_dq_kernel(const Index* offsets, Index sequences, Operands in, const S* log_sum_exp, const Out* out,
                        const DOut* dout, const S* sums, DQuery* dquery, S* corrections, S* gain_parts) {
  using Head = HeadOfBlock<Size, Cores, S>;
  using Tiles = FittingQueryTiles<Size, Cores>;
  static_assert(std::is_same_v<Cores, typename Tiles::Cores>);
  using Scores = typename Cores::template Scores<Tiles::others>;
  constexpr int own_rows = Cores::own_rows, others = Tiles::others, threads = Tiles::threads;
  const Head head(offsets, sequences, in);
  const HeadGains<S> gains = head.gains(in);
  const int begin = head.tile_from_last(sequences) * Tiles::own, rows = head.rows - begin;
  S gain_sums[3] = {};  // of alpha, beta, gamma
  const auto write_gains = [&] {
    for (int gain = 0; gain < Size::gains; ++gain) {
      gain_parts[(Index(gain) * gridDim.x + blockIdx.x) * Size::heads + head.h] = gain_sums[gain];
    }
  };
  if (rows <= 0) {  // the whole block
    if (threadIdx.x == 0) write_gains();
    return;
  }
  constexpr bool known = !std::is_void_v<Out> && (Size::gains == 0 || Cores::rounds);  // D, but for gamma
  constexpr bool flat = known && flat_means<Size, Cores>;
  constexpr bool first_pass = !known || (Size::centred && !(flat && !Size::causal));
  constexpr bool second_pass = dq_mode != Write::skip || Size::gains > 0;
  SIMPLX_LARGE_SHARED(tiles, Tiles);
  if constexpr (flat) {
    each_part<threads, 1, Size::value_width>([&](int, int, int col) {
      const int count = Size::causal ? begin / Tiles::own : static_cast<int>(gridDim.x / sequences);
      const S* sum = sums + blockIdx.x % sequences * Size::value_stride + head.h * Size::value_width + col;
      S total = 0;
      for (int i = 0; i < count; ++i, sum += sequences * Size::value_stride) total += *sum;
      tiles.values_before[col] = total;
    });
    __syncthreads();
  }
  if constexpr (first_pass || second_pass) {
    Cores::template load<threads>(tiles.own_keys, in.query, head.key_at(begin), Size::key_stride, rows);
    Cores::template load<threads>(tiles.own_values, dout, head.value_at(begin), Size::value_stride, rows);
  }
  S log_sum[own_rows];  // finite where no row is: dO is zero there
  SIMPLX_UNROLL
  for (int a = 0; a < own_rows; ++a) {
    const int i = begin + Cores::own_row(a);
    log_sum[a] = i < head.rows ? log_sum_exp[head.row_at(i)] * Cores::unit : S(0);
  }

  const int first_query = begin + Cores::warp_row();  // of the warp
  const auto mask = [&](int key, Scores& weights) {
    if (head.all_see(first_query, Cores::warp_rows, key, others)) return;
    Cores::template each_score<others>([&](int a, int b, int row, int col) {
      weights[a][b] = head.sees(begin + row, key + col) ? weights[a][b] : S(0);
    });
  };
  /// Calls use(key, place, A, dM) for the tiles of keys that the own one sees, keys and values in that place; without A
  /// and keys if `scored` is not true.
  const auto each_tile_of_keys = [&]<bool scored>(std::bool_constant<scored>, int from, const auto& use) {
    const auto fill = [&](int key, int place) {
      const int left = head.rows - key;
      if constexpr (scored) {
        Cores::template load<threads>(tiles.other_keys[place], in.key, head.key_at(key), Size::key_stride, left);
      }
      Cores::template load<threads>(tiles.other_values[place], in.value, head.value_at(key), Size::value_stride, left);
    };
    if constexpr (Size::window > 0) from = head.near_begin(begin, others);
    const int end = head.keys_end(begin + Tiles::own);
    each_tile<Cores, Tiles::places>(from, end, others, fill, [&](int key, int place) {
      if (!head.some_see(begin + Cores::group_row(), Cores::group_rows, key, others)) return;
      Scores weights, d_weights;
      if constexpr (scored) {
        Cores::multiply_rows(tiles.own_keys, tiles.other_keys[place], weights);
        Cores::template each_score<others>([&](int a, int b, int row, int col) {
          weights[a][b] = head.weight(weights[a][b], log_sum[a], begin + row, key + col);
        });
        mask(key, weights);
      }
      Cores::multiply_rows(tiles.own_values, tiles.other_values[place], d_weights);
      use(key, place, weights, d_weights);
    });
  };

  const DroppedWeights<S> dropped = head.dropped(sequences, in);
  detail::RowKey queries[own_rows];
  SIMPLX_UNROLL
  for (int a = 0; a < own_rows && Size::drops; ++a) queries[a] = dropped.row(begin + Cores::own_row(a));
  /// dM of an element, as its weight was dropped.
  const auto kept = [&](int a, int key, S d_weight) {
    if constexpr (Size::drops) {
      return dropped.drops(queries[a], key) ? S(0) : dropped.kept * d_weight;
    } else {
      return d_weight;
    }
  };

  S correction[own_rows] = {}, mean[own_rows] = {};  // mean: of dM by the weights of C, as forward rounds them
  if constexpr (known || Size::gains > 0) {
    constexpr int together = Cores::template together<Size::value_width>;
    Cores::template each_own<Size::value_width>(rows, [&](int a, int, int row, int col) {
      using Part = Numbers<S, together>;
      const Index at = head.value_at(begin + row) + col;
      const Part d = as_factors<Cores>(load_numbers<together>(dout + at));
      Part value;
      if constexpr (Size::gains > 0) value = load_numbers<together>(in.value + at);
      if constexpr (known) correction[a] += (d * (load_numbers<together>(out + at) - gains.alpha * value)).sum();
      gain_sums[0] += (d * value).sum();
      if constexpr (flat) mean[a] += (d * load_numbers<together>(tiles.values_before + col)).sum();
    });
  }
  if constexpr (first_pass) {
    S total[own_rows] = {};  // of A
    const auto use = [&](int key, int, const Scores& weights, Scores& d_weights) {
      if constexpr (!known) {
        Cores::template each_score<others>([&](int a, int b, int, int col) {
          correction[a] += gains.beta * weights[a][b] * kept(a, key + col, d_weights[a][b]);
          total[a] += weights[a][b];
        });
      }
      if constexpr (Size::centred) {
        mask(key, d_weights);
        Cores::template each_score<others>([&](int a, int b, int row, int col) {
          mean[a] += Cores::as_factor(head.mean_weight(S(1), begin + row, key + col)) * d_weights[a][b];
        });
      }
    };
    each_tile_of_keys(std::bool_constant<!known>(), flat ? begin : 0, use);
    // The total is one, but for the rounding of a large log_sum: dM - D must cancel where A is one.
    SIMPLX_UNROLL
    for (int a = 0; a < own_rows && !known; ++a) correction[a] /= Cores::row_sum(total[a]);
  }
  if constexpr (Size::centred) {
    SIMPLX_UNROLL
    for (int a = 0; a < own_rows; ++a) {
      const int i = begin + Cores::own_row(a);
      if (i < head.rows) mean[a] *= S(1) / head.mean_sum(i);  // beyond, dO is zero
      if constexpr (known) correction[a] += gains.gamma * mean[a];
      gain_sums[2] -= mean[a];
    }
  }
  SIMPLX_UNROLL
  for (int a = 0; a < own_rows; ++a) {
    correction[a] = Cores::row_sum(correction[a]);
    if (gains.beta == 0) correction[a] = 0;  // but for what was rounded
    if (Cores::own_col(0) != 0 || Cores::own_row(a) >= rows) continue;
    corrections[head.row_at(begin + Cores::own_row(a))] = correction[a];
  }

  if constexpr (second_pass) {
    typename Cores::template Product<Size::key_width> product = {};
    each_tile_of_keys(std::true_type(), 0, [&](int key, int place, Scores& weights, const Scores& d_weights) {
      Cores::template each_score<others>([&](int a, int b, int, int col) {
        const S weight = weights[a][b], d = kept(a, key + col, d_weights[a][b]);
        if constexpr (Size::gains > 0) gain_sums[1] += weight * d;
        weights[a][b] = weight * (gains.beta * d - correction[a]);
      });
      if constexpr (dq_mode == Write::skip) return;
      Cores::add_product(weights, tiles.weights, tiles.other_keys[place], product);
    });
    if constexpr (dq_mode != Write::skip) {
      Cores::template each_own<Size::key_width>(rows, [&](int a, int c, int row, int col) {
        const auto sum = Cores::template own<Size::key_width>(product, a, c);
        write_numbers<dq_mode>(dquery + head.key_at(begin + row) + col, Head::scale() * sum);
      });
    }
  }
  if constexpr (Size::gains > 0) {
    block_sum<Tiles::threads>(gain_sums);
    if (threadIdx.x == 0) write_gains();
  }
}

/// dK and dV for a tile of keys.
///
/// Shapes  corrections (tokens, heads)
template <class Size, class Cores, Write dk_mode, Write dv_mode, class Operands, class S, class DOut, class DKey,
          class DValue>
__global__ void __launch_bounds__(FittingKeyTiles<Size, Cores>::threads, FittingKeyTiles<Size, Cores>::blocks)
    attention_dk_dv_kernel(const Index* offsets, Index sequences, Operands in, const S* log_sum_exp,
                           const DOut* dout, const S* corrections, DKey* dkey, DValue* dvalue) {
  using Head = HeadOfBlock<Size, Cores, S>;
  using Tiles = FittingKeyTiles<Size, Cores>;
  static_assert(std::is_same_v<Cores, typename Tiles::Cores>);
  constexpr int others = Tiles::others, threads = Tiles::threads, own_cols = Cores::template own_cols<others>;
  const Head head(offsets, sequences, in);
  const int begin = head.tile * Tiles::own, rows = head.rows - begin;
  if (rows <= 0) return;  // the whole block
  SIMPLX_LARGE_SHARED(tiles, Tiles);
  Cores::template load<threads>(tiles.own_keys, in.key, head.key_at(begin), Size::key_stride, rows);
  if constexpr (dk_mode != Write::skip) {
    Cores::template load<threads>(tiles.own_values, in.value, head.value_at(begin), Size::value_stride, rows);
  }
  const HeadGains<S> gains = head.gains(in);
  typename Cores::template Product<Size::key_width> dk = {};
  typename Cores::template Product<Size::value_width> dv = {};
  const DroppedWeights<S> dropped = head.dropped(sequences, in);

  const auto fill = [&](int query, int place) {
    const int left = head.rows - query;
    Cores::template load<threads>(tiles.other_keys[place], in.query, head.key_at(query), Size::key_stride, left);
    Cores::template load<threads>(tiles.other_values[place], dout, head.value_at(query), Size::value_stride, left);
    if constexpr (Cores::copies) {
      const Index at = head.row_at(query);
      Cores::template load<threads>(tiles.log_sum[place], log_sum_exp + at, Size::heads, left);
      if constexpr (dk_mode != Write::skip) {
        Cores::template load<threads>(tiles.correction[place], corrections + at, Size::heads, left);
      }
      if constexpr (Size::centred) {
        each_part<threads, others, 1>([&](int i, int below, int) {
          const int row = i + below;
          tiles.mean[place][row] = row < left ? gains.gamma / head.mean_sum(query + row) : S(0);
        });
      }
    }
  };
  const int first_key = begin + Cores::warp_row();  // of the warp
  const auto use = [&](int query, int place) {
    if (!head.some_see(query, others, begin + Cores::group_row(), Cores::group_rows)) return;
    S log_sum[own_cols], correction[own_cols], mean[own_cols];  // without copies, loaded while products take longer
    SIMPLX_UNROLL
    for (int b = 0; b < own_cols && !Cores::copies; ++b) {
      const int i = query + Cores::own_col(b);
      const bool there = i < head.rows;
      log_sum[b] = there ? log_sum_exp[head.row_at(i)] : S(0);
      if constexpr (dk_mode != Write::skip) correction[b] = there ? corrections[head.row_at(i)] : S(0);
      if constexpr (Size::centred) mean[b] = there ? gains.gamma / head.mean_sum(i) : S(0);
    }
    typename Cores::template Scores<others> weights, d_scores;
    Cores::multiply_rows(tiles.own_keys, tiles.other_keys[place], weights);
    Cores::template each_score<others>([&](int a, int b, int row, int col) {
      const S log = Cores::copies ? tiles.log_sum[place][Cores::copies ? col : 0] : log_sum[b];
      weights[a][b] = head.weight(weights[a][b], log * Cores::unit, query + col, begin + row);
    });
    if constexpr (dk_mode != Write::skip) Cores::multiply_rows(tiles.own_values, tiles.other_values[place], d_scores);
    Cores::template each_score<others>([&](int a, int b, int row, int col) {
      const int copied = Cores::copies ? col : 0;
      const S weight = weights[a][b];
      if constexpr (Size::drops) {
        const S kept = dropped.drops(dropped.row(query + col), begin + row) ? S(0) : dropped.kept;
        weights[a][b] *= kept;
        if constexpr (dk_mode != Write::skip) d_scores[a][b] *= kept;
      }
      if constexpr (dk_mode != Write::skip) {
        const S d = Cores::copies ? tiles.correction[place][copied] : correction[b];
        d_scores[a][b] = weight * (gains.beta * d_scores[a][b] - d);
      }
      weights[a][b] = gains.beta * weights[a][b];
      if constexpr (Size::centred) {
        const S mean_factor = Cores::copies ? tiles.mean[place][copied] : mean[b];
        weights[a][b] -= head.mean_weight(mean_factor, query + col, begin + row);
      }
    });
    if (!head.all_see(query, others, first_key, Cores::warp_rows) || query + others > head.rows) {
      Cores::template each_score<others>([&](int a, int b, int row, int col) {
        const bool seen = query + col < head.rows && head.sees(query + col, begin + row);
        weights[a][b] = seen ? weights[a][b] : S(0);
        if constexpr (dk_mode != Write::skip) d_scores[a][b] = seen ? d_scores[a][b] : S(0);
      });
    }
    if constexpr (dv_mode != Write::skip) Cores::add_product(weights, tiles.weights, tiles.other_values[place], dv);
    if constexpr (dk_mode != Write::skip) Cores::add_product(d_scores, tiles.weights, tiles.other_keys[place], dk);
  };
  const int from = Size::causal ? begin : Size::window > 0 ? head.near_begin(begin, others) : 0;
  const int end = head.queries_end(begin + Tiles::own);
  each_tile<Cores, Tiles::places>(from, end, others, fill, use);

  // Where dK and dV share a buffer their heads are equally wide: one thread adds both to a place, in turn.
  if constexpr (dk_mode != Write::skip) {
    Cores::template each_own<Size::key_width>(rows, [&](int a, int c, int row, int col) {
      const auto sum = Cores::template own<Size::key_width>(dk, a, c);
      write_numbers<dk_mode>(dkey + head.key_at(begin + row) + col, Head::scale() * sum);
    });
  }
  if constexpr (dv_mode != Write::skip) {
    Cores::template each_own<Size::value_width>(rows, [&](int a, int c, int row, int col) {
      const Index at = head.value_at(begin + row) + col;
      auto sum = Cores::template own<Size::value_width>(dv, a, c);
      if constexpr (Size::gains > 0) {
        sum += head.gains(in).alpha * load_numbers<Cores::template together<Size::value_width>>(dout + at);
      }
      write_numbers<dv_mode>(dvalue + at, sum);
    });
  }
}

/// Blocks of the first kernel for each head.
template <class Size, class Cores>
constexpr unsigned attention_dq_blocks(Index sequences, Index longest) {
  return blocks_for(longest, FittingQueryTiles<Size, Cores>::own) * blocks_for(sequences, 1);
}

/// Elements of scratch of attention_backward: parts of the gradients of gains, the corrections of all rows, and sums of
/// values.
template <AttentionSize size, class Cores>
constexpr Index attention_backward_scratch(Index tokens, Index sequences, Index longest) {
  using Size = Fixed<size>;
  const Index blocks = attention_dq_blocks<Size, Cores>(sequences, longest);
  const Index sums = flat_means<Size, Cores> ? blocks * Size::value_stride : 0;
  return (Size::gains * blocks + tokens) * Size::heads + sums;
}

/// The backward pass; computes the weights anew from `log_sum_exp`. The gradients of attention's result, query, key and
/// value may be bfloat16, and without gains that result. Of a result that was not kept `out` is a const void*.
///
/// Shapes  log_sum_exp, out and offsets as in attention; dout as out;
///         scratch (attention_backward_scratch<size, Cores>(...))
/// Cost    T^2 (4 key_width + 3 value_width) multiply-adds per head and sequence, with gamma 4 value_width, where D
///         takes a pass over the scores 5 key_width and 4 value_width; half of them if causal
/// Source  He & Hofmann 2024, Eqs. (2), (4), (5) and (13); Dao et al. 2022, Section 3.1
template <AttentionSize size, class Cores, Write dq_mode, Write dk_mode, Write dv_mode, class Operands, class S,
          class Out, class DOut, class DQuery, class DKey, class DValue>
void attention_backward(cudaStream_t stream, const Index* offsets, Index sequences, Index longest,
                        const Operands& in, const S* log_sum_exp, const Out* out, const DOut* dout,
                        const AttentionGradients<S, DQuery, DKey, DValue>& to, S* scratch) {
  using Size = Fixed<size>;
  static_assert(Size::gains == 0 || std::is_void_v<Out> || std::is_same_v<Out, S>,
                "what gains were applied to is rounded");
  const unsigned blocks = attention_dq_blocks<Size, Cores>(sequences, longest);
  if (blocks == 0) return;
  const Index part = Index(blocks) * Size::heads;
  S* const sums = scratch;  // first, for they are stored as neighbours
  S* const gain_parts = sums + (flat_means<Size, Cores> ? blocks * Size::value_stride : 0);
  S* const corrections = gain_parts + Size::gains * part;
  if (dq_mode != Write::skip || dk_mode != Write::skip || to.alpha || to.beta || to.gamma) {
    using Tiles = FittingQueryTiles<Size, Cores>;
    if constexpr (flat_means<Size, Cores> && !std::is_void_v<Out>) {
      constexpr Index columns = sums_columns<Size>;
      launch(stream, attention_sums_kernel<Size, typename Tiles::Cores, Tiles::own,
                                           std::remove_cvref_t<decltype(*in.value)>, S>,
             dim3(blocks, blocks_for(Size::value_stride, columns)), sums_threads, offsets, sequences, in.value, sums);
    }
    launch_with_shared(
        room_for<Tiles>, stream,
        attention_dq_kernel<Size, typename Tiles::Cores, dq_mode, Operands, S, Out, DOut, DQuery>,
        dim3(blocks, Size::heads), Tiles::threads, offsets, sequences, in, log_sum_exp, out, dout, sums, to.query,
        corrections, gain_parts);
  }
  if constexpr (dk_mode != Write::skip || dv_mode != Write::skip) {
    using Tiles = FittingKeyTiles<Size, Cores>;
    const dim3 grid(blocks_for(longest, Tiles::own) * blocks_for(sequences, 1), Size::heads);
    launch_with_shared(room_for<Tiles>, stream,
                       attention_dk_dv_kernel<Size, typename Tiles::Cores, dk_mode, dv_mode, Operands, S, DOut, DKey,
                                              DValue>,
                       grid, Tiles::threads, offsets, sequences, in, log_sum_exp, dout, corrections, to.key, to.value);
  }
  S* const gradients[] = {to.alpha, to.beta, to.gamma};
  for (int gain = 0; gain < Size::gains; ++gain) {
    if (gradients[gain]) {
      add_column_sums(stream, gain_parts + gain * part, static_cast<int>(blocks), Size::heads, gradients[gain]);
    }
  }
}

}  // namespace simplx::gpu
