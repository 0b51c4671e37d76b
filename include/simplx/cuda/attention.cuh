// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/attention.cuh
/// Multi-head attention of cpu/attention_size.hpp, in memory linear in the context:
///
///   O = alpha V + (beta A V - gamma C V),   A = softmax(Q K^T / sqrt(key_width) + mask - slope |i - j|)
///
/// A block has some rows of queries, its tile, and passes over tiles of keys and values. It knows the largest score and
/// the sum of exponentials of what it has seen, and scales sum and product anew when a score comes that is larger by
/// more than some slack (Dao et al. 2022, Algorithm 1). C is A at Q = 0, so C V needs no scores: with
/// lambda = exp(-slope)
///
///   (C V)_i = (P_i + N_i) / Z_i      P_i = lambda P_{i-1} + v_i,  N_i = lambda (N_{i+1} + v_{i+1}) or 0 if causal
///
/// is a pass over V of its own. (Tensor cores, and in a window all, multiply V by the weights of C in the pass of A.)
/// Without slopes both add the rows of V in the same order: where all scores are zero they have the same bits, and
/// alpha = beta = gamma = 1 is the identity.
///
/// Cores, of tile.cuh or tensor_cores.cuh, have the products, and know which elements of them a thread has.

#include <simplx/cuda/attention_head.cuh>
#include <simplx/cuda/bfloat16_values.cuh>
#include <simplx/cuda/tile.cuh>

#include <cmath>
#include <type_traits>

namespace simplx::inline SIMPLX_TARGET::gpu {

/// Whether C V is taken in the pass of A, rather than before.
template <class Size, class Cores>
inline constexpr bool means_beside = Size::centred && (Cores::means_beside || Size::window > 0);

/// The tiles of a block of the forward pass: its own queries, and the keys and values that pass by.
template <class Size, class Warps, int own_count, int other_count, int place_count>
struct ForwardTiles {
  using Cores = Warps;
  static constexpr int own = own_count, others = other_count, places = place_count;
  static constexpr int threads = own / Cores::warp_rows * warp_lanes;
  static constexpr bool means = means_beside<Size, Cores>;
  /// Numbers that the threads of a row hold, what ALiBi needs of each weight of C beside them, and the sums among them.
  static constexpr int held = (others + Size::value_width) * (means ? 2 : 1);
  static constexpr int held_beside = Size::alibi && means ? others : 0;
  static constexpr int sums = (Size::alibi ? 2 : 1) * others + Size::value_width * (means ? 2 : 1);
  static constexpr int blocks = Cores::template blocks<held, sums, threads>;
  typename Cores::template Tile<own, Size::key_width> query;
  typename Cores::template Tile<others, Size::key_width> key[places];
  typename Cores::template Tile<others, Size::value_width> value[places];
  typename Cores::template Weights<own, others> weights;
};

/// Whether shared memory holds tiles; 512 bytes are left to sums over blocks.
template <class Tiles>
inline constexpr bool in_shared_memory = room_for<Tiles> <= Tiles::Cores::most_shared - 512;

/// The largest tiles, from 64 rows on, that shared memory and registers hold. The second place is given up first, then
/// own rows: with fewer others a thread reads more for each multiply-add.
template <template <class, class, int, int, int> class Tiles, class Size, class Cores, int own = 64,
          int others = Cores::most_others, int places = Cores::places>
constexpr auto fitting_tiles() {
  using These = Tiles<Size, Cores, own, others, places>;
  static_assert(others >= Cores::least_others, "heads are too wide for the shared memory of a block");
  constexpr bool crowded = These::held > Cores::most_held && others > Cores::least_others;
  if constexpr (others < Cores::least_others || (in_shared_memory<These> && !crowded)) {
    return std::type_identity<These>{};
  } else if constexpr (crowded) {
    return fitting_tiles<Tiles, Size, Cores, own, others / 2>();
  } else if constexpr (places == 2) {
    return fitting_tiles<Tiles, Size, Cores, own, others, 1>();
  } else {
    constexpr bool fewer_own = own > others && own > 16;  // a warp has 16
    return fitting_tiles<Tiles, Size, Cores, fewer_own ? own / 2 : own, fewer_own ? others : others / 2>();
  }
}

/// Those of warpgroups for the widths that they take, two of them if registers hold the sums of two blocks. Those of
/// wide warps if they hold them without giving up anything; else of others. Narrow heads are those of small models,
/// which have few blocks: they rather have more of them.
template <template <class, class, int, int, int> class Tiles, class Size, class Cores>
constexpr auto best_tiles() {
  if constexpr (Cores::by_groups) {
    if constexpr (Cores::template takes<Size>) {
      using Two = Tiles<Size, Cores, 2 * Cores::group_rows, Cores::most_others, Cores::places>;
      if constexpr (Two::sums <= Cores::most_sums_of_two && in_shared_memory<Two>) {
        return std::type_identity<Two>{};
      } else {
        return fitting_tiles<Tiles, Size, Cores>();
      }
    } else {
      return best_tiles<Tiles, Size, typename Cores::Narrow>();
    }
  } else {
    using Wide = typename Cores::Wide;
    using These = Tiles<Size, Wide, 4 * Wide::warp_rows, Wide::most_others, Wide::places>;
    constexpr bool wide_heads = Size::key_width + Size::value_width >= 96;
    constexpr bool hold_them = These::held + These::held_beside <= Wide::most_held;
    if constexpr (wide_heads && in_shared_memory<These> && hold_them) {
      return std::type_identity<These>{};
    } else {
      return fitting_tiles<Tiles, Size, Cores>();
    }
  }
}
template <class Size, class Cores>
using FittingForwardTiles = typename decltype(best_tiles<ForwardTiles, Size, Cores>())::type;

/// out = alpha V + beta (A * R) V - gamma mean; `out` holds the mean before unless it is taken beside.
template <class Size, class Cores, class Operands, class Out, class S>
__global__ void __launch_bounds__(FittingForwardTiles<Size, Cores>::threads,
                                  FittingForwardTiles<Size, Cores>::blocks)
    attention_kernel(const Index* offsets, Index sequences, Operands in, Out* out, S* log_sum_exp) {
  using Head = HeadOfBlock<Size, Cores, S>;
  using Tiles = FittingForwardTiles<Size, Cores>;
  static_assert(std::is_same_v<Cores, typename Tiles::Cores>);
  constexpr int own_rows = Cores::own_rows, others = Tiles::others, threads = Tiles::threads;
  constexpr bool means = Tiles::means;
  const Head head(offsets, sequences, in);
  const int begin = head.tile_from_last(sequences) * Tiles::own, rows = head.rows - begin;
  if (rows <= 0) return;  // the whole block
  SIMPLX_LARGE_SHARED(tiles, Tiles);
  Cores::template load<threads>(tiles.query, in.query, head.key_at(begin), Size::key_stride, rows);
  const S factor = Size::alibi ? S(1) : Head::factor();  // of what is held as scores: without a bias, products
  S highest[own_rows], total[own_rows] = {};  // of scores seen, but for slack; of their exponentials, the own columns
  SIMPLX_UNROLL
  for (int a = 0; a < own_rows; ++a) highest[a] = Head::unseen;
  typename Cores::template Product<Size::value_width> product = {};
  typename Cores::template Product<means ? Size::value_width : 1> mean = {};

  const DroppedWeights<S> dropped = head.dropped(sequences, in);
  detail::RowKey queries[own_rows];
  SIMPLX_UNROLL
  for (int a = 0; a < own_rows && Size::drops; ++a) queries[a] = dropped.row(begin + Cores::own_row(a));

  const auto fill = [&](int key, int place) {
    const int left = head.rows - key;
    Cores::template load<threads>(tiles.key[place], in.key, head.key_at(key), Size::key_stride, left);
    Cores::template load<threads>(tiles.value[place], in.value, head.value_at(key), Size::value_stride, left);
  };
  const int first = begin + Cores::warp_row();  // query of the warp
  const auto use = [&](int key, int place) {
    if (!head.some_see(begin + Cores::group_row(), Cores::group_rows, key, others)) return;
    typename Cores::template Scores<others> scores;
    Cores::multiply_rows(tiles.query, tiles.key[place], scores);  // (own, others)
    const bool all_seen = head.all_see(first, Cores::warp_rows, key, others);
    /// What counts for keys that a query does not see. The whole warp goes one way.
    const auto mask = [&](S masked) {
      if (all_seen) return;
      Cores::template each_score<others>([&](int a, int b, int row, int col) {
        scores[a][b] = head.sees(begin + row, key + col) ? scores[a][b] : masked;
      });
    };
    if constexpr (Size::alibi) {
      Cores::template each_score<others>([&](int a, int b, int row, int col) {
        scores[a][b] = scores[a][b] * Head::factor() + head.bias(begin + row, key + col);
      });
    }
    mask(Head::unseen);
    S largest[own_rows];
    SIMPLX_UNROLL
    for (int a = 0; a < own_rows; ++a) largest[a] = highest[a];
    Cores::template each_score<others>(
        [&](int a, int b, int, int) { largest[a] = std::fmax(largest[a], scores[a][b]); });
    S shrink[own_rows];
    bool grown = false;
    SIMPLX_UNROLL
    for (int a = 0; a < own_rows; ++a) {
      largest[a] = Cores::row_max(largest[a]);
      const bool grows = (largest[a] - highest[a]) * factor > Head::slack;
      shrink[a] = grows ? Cores::power((highest[a] - largest[a]) * factor) : S(1);
      highest[a] = grows ? largest[a] : highest[a];
      grown = grown || grows;
    }
    if (__any_sync(whole_warp, grown)) {
      SIMPLX_UNROLL
      for (int a = 0; a < own_rows; ++a) {
        total[a] *= shrink[a];
        Cores::template scale_row<Size::value_width>(product, a, shrink[a]);
      }
    }
    Cores::template each_score<others>([&](int a, int b, int, int col) {
      const S from = highest[a] > Head::unseen ? highest[a] : S(0);  // where nothing but -inf was seen: weights of 0
      scores[a][b] = Cores::power(scores[a][b] * factor - from * factor);
      total[a] += scores[a][b];
      if constexpr (Size::drops) scores[a][b] = dropped.drops(queries[a], key + col) ? S(0) : scores[a][b];
    });
    Cores::add_product(scores, tiles.weights, tiles.value[place], product);  // (own, value_width)
    if constexpr (means) {
      Cores::template each_score<others>(
          [&](int a, int b, int row, int col) { scores[a][b] = head.mean_weight(S(1), begin + row, key + col); });
      mask(0);
      Cores::add_product(scores, tiles.weights, tiles.value[place], mean);
    }
  };
  const int end = head.keys_end(begin + Tiles::own);
  each_tile<Cores, Tiles::places>(Size::window > 0 ? head.near_begin(begin, others) : 0, end, others, fill, use);

  SIMPLX_UNROLL
  for (int a = 0; a < own_rows; ++a) {
    const int i = begin + Cores::own_row(a);
    total[a] = Cores::row_sum(total[a]);
    Cores::template scale_row<Size::value_width>(product, a, dropped.kept / total[a]);
    if constexpr (means) {
      Cores::template scale_row<Size::value_width>(mean, a, i < head.rows ? S(1) / head.mean_sum(i) : S(0));
    }
    if (Cores::own_col(0) == 0 && i < head.rows) {
      log_sum_exp[head.row_at(i)] = highest[a] * factor / Cores::unit + std::log(total[a]);
    }
  }
  Cores::template each_own<Size::value_width>(rows, [&](int a, int c, int row, int col) {
    constexpr int together [[maybe_unused]] = Cores::template together<Size::value_width>;
    const Index at = head.value_at(begin + row) + col;
    const HeadGains<S> gains = head.gains(in);
    auto sum = Cores::template own<Size::value_width>(product, a, c);
    if constexpr (Size::gains > 0) sum = gains.beta * sum;
    if constexpr (means) {
      sum = sum - gains.gamma * Cores::template own<Size::value_width>(mean, a, c);
    } else if constexpr (Size::centred) {
      sum = sum - gains.gamma * load_numbers<together>(out + at);
    }
    if constexpr (Size::gains > 0) sum += gains.alpha * load_numbers<together>(in.value + at);
    store_numbers(out + at, sum);
  });
}

inline constexpr int mean_threads = 64;

/// mean = C V, of all that the mask lets be seen; a thread has a column of a sequence.
template <class Size, class Cores, class S>
__global__ void __launch_bounds__(mean_threads)
    attention_mean_kernel(const Index* offsets, const S* value, const S* slopes, S* mean) {
  using Head = HeadOfBlock<Size, Cores, S>;
  const Index col = static_cast<Index>(blockIdx.y) * mean_threads + static_cast<Index>(threadIdx.x);
  if (col >= Size::value_stride) return;
  const Index first = offsets[blockIdx.x];
  const int rows = static_cast<int>(offsets[blockIdx.x + 1] - first);
  const S slope = Size::alibi ? slopes[col / Size::value_width] : S(0);
  const S shrink = -std::expm1(-slope);  // 1 - lambda: exact where lambda, near one, has lost the slope's last digits
  const auto shrunk = [&](S x) { return Size::alibi ? x - x * shrink : x; };
  const auto at = [&](int row) { return (first + row) * Size::value_stride + col; };
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
  if constexpr (Size::causal || Size::alibi) {
    each_row(0, 1, [&](int i, S v) {
      sum = shrunk(sum) + v;
      mean[at(i)] = sum * (S(1) / Head::mean_sum(slope, i, rows));
    });
  }
  if constexpr (!Size::causal && Size::alibi) {
    sum = 0;
    each_row(rows - 1, -1, [&](int i, S v) {
      mean[at(i)] += sum * (S(1) / Head::mean_sum(slope, i, rows));
      sum = shrunk(sum + v);
    });
  }
  if constexpr (!Size::causal && !Size::alibi) {
    each_row(0, 1, [&](int, S v) { sum += v; });
    const S of_all = sum * (S(1) / S(rows));
    for (int i = 0; i < rows; ++i) mean[at(i)] = of_all;
  }
}

/// The forward pass; fills `out` and `log_sum_exp`. Sequence s has the tokens offsets[s] .. offsets[s + 1], at most
/// `longest` of them. Shared memory holds heads of up to 244 columns of float, 116 of double, and 368 of bfloat16, in
/// both passes.
///
/// Shapes  offsets (sequences + 1), on the device; out as value; log_sum_exp (tokens, heads), kept for the backward.
///         Buffers begin on 16 bytes. By tensor cores query, key, value and out may be of bfloat16
/// Cost    T^2 (key_width + value_width) multiply-adds per head and sequence, half of them if causal; no scratch. Of
///         shaped attention tensor cores, and all in a window, do T^2 value_width more. With a window only tiles that
///         it reaches are read
/// Source  He & Hofmann 2024, Eqs. (2), (4), (5) and (13); Dao et al. 2022, Algorithm 1
template <AttentionSize size, class Cores, class Operands, class Out, class S>
void attention(cudaStream_t stream, const Index* offsets, Index sequences, Index longest, const Operands& in, Out* out,
               S* log_sum_exp) {
  using Size = Fixed<size>;
  using Tiles = FittingForwardTiles<Size, Cores>;
  if constexpr (Size::centred && !Tiles::means) {
    const dim3 grid(blocks_for(sequences, 1), blocks_for(Size::value_stride, mean_threads));
    launch(stream, attention_mean_kernel<Size, Cores, S>, grid, mean_threads, offsets, in.value, in.slopes, out);
  }
  const dim3 grid(blocks_for(longest, Tiles::own) * blocks_for(sequences, 1), Size::heads);
  launch_with_shared(room_for<Tiles>, stream, attention_kernel<Size, typename Tiles::Cores, Operands, Out, S>, grid,
                     Tiles::threads, offsets, sequences, in, out, log_sum_exp);
}

}  // namespace simplx::gpu
