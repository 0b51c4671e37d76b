// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/attention_step.cuh
/// Causal attention of new tokens to all tokens before them, as cpu/attention_step.hpp: per head, with a new token's
/// number t,
///
///   o_t = alpha v_t + beta sum_{j <= t} a_tj v_j - gamma sum_{j <= t} c_tj v_j
///                                                                    (He & Hofmann 2024, Eqs. (4), (5) and (13))
///   a_tj = softmax_j(q_t . k_j / sqrt(key_width) - m (t - j)),  c_tj = exp(-m (t - j)) / Z_t
///
/// With a window the sums begin at j = t - window + 1, and spans at the tile of the first token that a block sees. Its
/// stores are rings of tiles, so many that new tokens lie in none that is still read.
///
/// | symbol | shape                                          | meaning                                      |
/// |--------|------------------------------------------------|----------------------------------------------|
/// | keys   | (tiles, key_heads, key_width, step_tile)       | a tile's tokens side by side: one a thread   |
/// | values | (tiles, value_heads, step_tile, value_width)   | a token's columns side by side: one a thread |
/// | parts  | (rows, heads, spans, 2 + value_width, or       | what each span of tiles adds to a row        |
/// |        | 2 + 2 value_width of shaped attention)         |                                              |
///
/// Rows are many of one sequence, or one of each of several. A block has a head, some new rows of a sequence and a span
/// of tiles, which it passes over as attention.cuh does; a second kernel adds the spans of each row. Tiles are shared
/// out among so many blocks that a GPU has some 256 of all heads and rows. Who has a row remembers its key and value;
/// the others read what is new where it was made. Which sequences these are, and how many tokens of each came before,
/// is read on the device: one recording serves every token (recorded.cuh).

#include <simplx/cuda/attention.cuh>
#include <simplx/cuda/reduce.cuh>

#include <bit>

namespace simplx::inline SIMPLX_TARGET::gpu {

/// Tokens of a tile, and threads of a block.
inline constexpr Index step_tile = 128;

/// What an attention remembers, in whole tiles. Heads that share keys or values have them once.
template <class T>
struct AttentionStores {
  T *keys = nullptr, *values = nullptr;  ///< of a stream's first sequence
  Index apart = 0;                       ///< elements from those of one sequence to those of the next
};

/// The sequences that new tokens belong to, `rows` to each.
struct StepSequences {
  Index count, rows;
  // On the device.
  const Index* past;    ///< how many tokens each had before
  const Index* number;  ///< which of the stream's it is
  Index since = 0;      ///< tokens that came in between, to one sequence

  __device__ Index past_of(Index sequence) const { return past[sequence] + since; }
};

/// How tiles are shared out among blocks.
struct StepSpans {
  Index count;  ///< blocks that a row's tiles have
  Index tiles;  ///< of each
};

inline constexpr int step_threads = static_cast<int>(step_tile);

/// Numbers of a store that a thread has on the way: of a single row few blocks run, and none hides another's wait.
template <int rows>
inline constexpr int step_ahead = rows == 1 ? 64 : 16;
/// Rows that a block has: their keys and values are read once.
SIMPLX_HD constexpr int step_rows(Index rows) { return rows == 1 ? 1 : 8; }

/// Where the tiles begin that rows see of which the first is this token.
template <class Size>
SIMPLX_HD constexpr Index step_begin(Index token) {
  if constexpr (Size::window > 0) {
    return token < Size::window ? 0 : (token - Size::window + 1) / step_tile * step_tile;
  } else {
    return 0;
  }
}

/// Rows of one sequence that come to a ring at once.
inline constexpr Index step_ring_rows = step_tile;
/// Tiles of a ring: by so many less one the last of these rows is away from what the first sees, at most.
SIMPLX_HD constexpr Index step_ring(int window) { return (window + step_ring_rows - 3) / step_tile + 2; }
/// Tokens of a store, of those of a context.
template <AttentionSize size>
inline constexpr Index step_tokens =
    size.window == 0 ? std::numeric_limits<Index>::max() : step_ring(size.window) * step_tile;
/// Where the tile that begins with this token is in a store.
template <class Size>
__device__ Index place_of_tile(Index token) {
  if constexpr (Size::window > 0) {
    return token / step_tile % step_ring(Size::window);
  } else {
    return token / step_tile;
  }
}

/// Columns of `parts`: the largest score, the sum of exponentials, their product with V, and that of the mean.
template <class Size>
inline constexpr int step_part = 2 + Size::value_width * (Size::centred ? 2 : 1);

/// Which columns of values a thread has: they are `across` apart. Several groups of threads share out a tile's tokens.
template <class Size>
struct StepColumns {
  static constexpr int across = std::min(static_cast<int>(std::bit_ceil(static_cast<unsigned>(Size::value_width))),
                                         step_threads);
  static constexpr int groups = step_threads / across, each = (Size::value_width + across - 1) / across;
  /// So many of a column at once, but no more than a tile has for the thread.
  SIMPLX_HD static constexpr int ahead(int count) { return count * groups < step_threads ? count : across; }
};

/// What the threads of a block share.
template <class Size, int rows, class S>
struct StepMemory {
  S query[rows][Size::key_width];
  S weights[rows][step_tile];                      ///< scores, then their exponentials
  S means[Size::centred ? rows : 1][step_tile];    ///< the weights of C, times Z
  S highest[rows], total[rows], shrink[rows];
};

/// A number as a store of T gives it back.
template <class T, class From>
__device__ __forceinline__ auto remembered(From number) {
  T stored;
  store_as(stored, wide(number));
  return wide(stored);
}

template <class Size, int rows_together, int key_heads, int value_heads, class Operands, class T, class S>
__global__ void __launch_bounds__(step_threads)
    attention_step_kernel(StepSequences sequences, Index tiles, Operands in, AttentionStores<T> stores, S* parts) {
  constexpr int R = rows_together, K = Size::key_width, V = Size::value_width, warps = step_threads / warp_lanes;
  constexpr int ahead = step_ahead<R>;
  constexpr int key_group = Size::heads / key_heads, value_group = Size::heads / value_heads;
  using Memory = StepMemory<Size, R, S>;
  static_assert(sizeof(Memory) <= std::size_t(48) << 10, "heads are too wide for the shared memory of a block");
  const int h = static_cast<int>(blockIdx.y), thread = static_cast<int>(threadIdx.x);
  const int warp = thread / warp_lanes, lane = thread % warp_lanes;
  const Index sequence = R == 1 ? blockIdx.z : 0, past = sequences.past_of(sequence);
  const Index shift = past - sequence;  // from a row to its token
  const Index rows = R == 1 ? sequences.count : sequences.rows;
  const Index first = static_cast<Index>(blockIdx.z) * R, last = first + R < rows ? first + R : rows;  // of its rows
  const Index span = tiles * step_tile;
  const Index begin = step_begin<Size>(shift + first) + static_cast<Index>(blockIdx.x) * span;
  const Index end = begin + span < shift + last ? begin + span : shift + last;  // of the tokens that its rows see
  if (begin >= end) return;  // the whole block
  const Index offset = sequences.number[sequence] * stores.apart;
  SIMPLX_SHARED(shared, Memory);
  for (int i = thread; i < R * K; i += step_threads) {
    const Index row = first + i / K;
    shared.query[i / K][i % K] = row < last ? wide(in.query[row * Size::key_stride + h * K + i % K]) : S(0);
  }
  if (thread < R) shared.highest[thread] = minus_infinity<S>, shared.total[thread] = 0;
  __syncthreads();

  const S scale = S(1) / std::sqrt(S(K));
  S slope = 0;
  if constexpr (Size::alibi) slope = in.slopes[h];
  const auto is_own = [&](Index token) { return token >= shift + first && token < shift + last; };

  constexpr int across = StepColumns<Size>::across, groups = StepColumns<Size>::groups;
  constexpr int columns = StepColumns<Size>::each;
  constexpr int many = StepColumns<Size>::ahead(ahead), few = StepColumns<Size>::ahead(16);
  const int group = thread / across, column = thread % across;
  S product[R][columns] = {}, mean[Size::centred ? R : 1][columns] = {};

  for (Index tile = begin; tile < end; tile += step_tile) {
    const Index token = tile + thread;
    S score[R] = {};
    const Index place = place_of_tile<Size>(tile);
    T* const key_of = stores.keys + offset + (place * key_heads + h / key_group) * K * step_tile + thread;
    const Index made_at = (token - shift) * Size::key_stride + h * K;
    for (int first_col = 0; first_col < K && token < end; first_col += ahead) {
      S key[ahead];
      const auto each = [&](const auto& f) {
        SIMPLX_UNROLL
        for (int i = 0; i < ahead; ++i) {
          if (first_col + i < K) f(first_col + i, key[i]);
        }
      };
      if (token < past) {
        each([&](int c, S& to) { to = wide(key_of[c * step_tile]); });
      } else {
        each([&](int c, S& to) { to = remembered<T>(in.key[made_at + c]); });
        if (is_own(token) && h % key_group == 0) each([&](int c, S from) { store_as(key_of[c * step_tile], from); });
      }
      each([&](int c, S from) {
        SIMPLX_UNROLL
        for (int r = 0; r < R; ++r) score[r] += shared.query[r][c] * from;
      });
    }
    SIMPLX_UNROLL
    for (int r = 0; r < R; ++r) {
      const Index distance = shift + first + r - token;
      bool sees = distance >= 0 && first + r < last;
      if constexpr (Size::window > 0) sees = sees && distance < Size::window;
      const S bias = Size::alibi ? -slope * S(distance) : S(0);
      shared.weights[r][thread] = sees ? score[r] * scale + bias : minus_infinity<S>;
      if constexpr (Size::centred) shared.means[r][thread] = !sees ? S(0) : Size::alibi ? std::exp(bias) : S(1);
    }
    __syncthreads();

    for (int r = warp; r < R; r += warps) {  // a warp has a row
      constexpr int each = step_threads / warp_lanes;
      const S highest = shared.highest[r];
      S largest = highest, sum = 0;
      SIMPLX_UNROLL
      for (int k = 0; k < each; ++k) largest = larger(largest, shared.weights[r][lane + k * warp_lanes]);
      largest = warp_max(largest);
      SIMPLX_UNROLL
      for (int k = 0; k < each; ++k) {
        S& weight = shared.weights[r][lane + k * warp_lanes];
        weight = weight == minus_infinity<S> ? S(0) : std::exp(weight - largest);
        sum += weight;
      }
      sum = warp_sum(sum);
      __syncwarp();  // all lanes have read what was the highest before
      if (lane == 0) {
        const S shrink = highest == minus_infinity<S> ? S(0) : std::exp(highest - largest);
        shared.total[r] = shared.total[r] * shrink + sum;
        shared.highest[r] = largest, shared.shrink[r] = shrink;
      }
    }
    __syncthreads();

    SIMPLX_UNROLL
    for (int r = 0; r < R; ++r) {
      for (S& sum : product[r]) sum *= shared.shrink[r];
    }
    T* const value_of = stores.values + offset + (place * value_heads + h / value_group) * step_tile * V;
    const auto in_tile = [&](Index tokens) {
      return static_cast<int>(tokens < 0 ? 0 : tokens < step_tile ? tokens : step_tile);
    };
    const int known = in_tile(past - tile), count = in_tile(end - tile), seen = known < count ? known : count;
    SIMPLX_UNROLL
    for (int i = 0; i < columns; ++i) {
      const int c = column + i * across;
      if (c >= V) continue;
      const auto add = [&](int k, S value) {
        SIMPLX_UNROLL
        for (int r = 0; r < R; ++r) {
          product[r][i] += shared.weights[r][k] * value;
          if constexpr (Size::centred) mean[r][i] += shared.means[r][k] * value;
        }
      };
      int k = group;
      for (; k + (many - 1) * groups < seen; k += many * groups) {
        S value[many];
        SIMPLX_UNROLL
        for (int a = 0; a < many; ++a) value[a] = wide(value_of[(k + a * groups) * V + c]);
        SIMPLX_UNROLL
        for (int a = 0; a < many; ++a) add(k + a * groups, value[a]);
      }
      for (; k < seen; k += few * groups) {
        S value[few];
        SIMPLX_UNROLL
        for (int a = 0; a < few; ++a) {
          value[a] = k + a * groups < seen ? wide(value_of[(k + a * groups) * V + c]) : S(0);
        }
        SIMPLX_UNROLL
        for (int a = 0; a < few; ++a) {
          if (k + a * groups < seen) add(k + a * groups, value[a]);
        }
      }
      for (k = group + (seen - group + groups - 1) / groups * groups; k < count; k += groups) {
        const S value = remembered<T>(in.value[(tile + k - shift) * Size::value_stride + h * V + c]);
        if (is_own(tile + k) && h % value_group == 0) store_as(value_of[k * V + c], value);
        add(k, value);
      }
    }
    __syncthreads();  // before the next tile's scores are written
  }

  const auto part_of = [&](int r) {
    return parts + (((first + r) * Size::heads + h) * gridDim.x + blockIdx.x) * step_part<Size>;
  };
  /// Adds the groups of threads, the first one first, and stores the sums from column `at` of the parts on.
  const auto store_sums = [&](const auto& sums, auto& room, int at) {
    if constexpr (groups > 1) {
      SIMPLX_UNROLL
      for (int r = 0; r < R; ++r) room[r][thread] = sums[r][0];
      __syncthreads();
    }
    if (group > 0) return;
    for (int r = 0; r < R && first + r < last; ++r) {
      SIMPLX_UNROLL
      for (int i = 0; i < columns; ++i) {
        S sum = sums[r][i];
        for (int other = 1; other < groups; ++other) sum += room[r][other * across + column];
        if (column + i * across < V) part_of(r)[at + column + i * across] = sum;
      }
    }
  };
  if (thread < R && first + thread < last) {
    part_of(thread)[0] = shared.highest[thread], part_of(thread)[1] = shared.total[thread];
  }
  store_sums(product, shared.weights, 2);
  if constexpr (Size::centred) store_sums(mean, shared.means, 2 + V);
}

/// Adds the spans of a row's head, the first one first.
template <class Size, class Operands, class Out, class S>
__global__ void __launch_bounds__(step_threads)
    attention_spans_kernel(StepSequences sequences, Index tiles, Index spans, Operands in, Out* out, const S* parts) {
  constexpr int V = Size::value_width, width = step_part<Size>;
  const int h = static_cast<int>(blockIdx.y);
  const Index row = static_cast<Index>(blockIdx.z) * gridDim.x + blockIdx.x;
  const Index token = sequences.past_of(blockIdx.z) + blockIdx.x;
  const Index begin = step_begin<Size>(token - blockIdx.x % step_rows(gridDim.x));  // of the block that had the row
  const Index seen = (token - begin) / (tiles * step_tile) + 1;
  parts += (row * Size::heads + h) * spans * width;
  S highest = minus_infinity<S>, total = 0;
  for (Index s = 0; s < seen; ++s) highest = larger(highest, parts[s * width]);
  for (Index s = 0; s < seen; ++s) total += parts[s * width + 1] * std::exp(parts[s * width] - highest);
  for (int c = static_cast<int>(threadIdx.x); c < V; c += static_cast<int>(blockDim.x)) {
    S product = 0;
    for (Index s = 0; s < seen; ++s) product += parts[s * width + 2 + c] * std::exp(parts[s * width] - highest);
    S sum = product * (S(1) / total);
    if constexpr (Size::gains > 0) sum = in.beta[h] * sum;
    if constexpr (Size::centred) {
      S slope = 0, mean = 0;
      if constexpr (Size::alibi) slope = in.slopes[h];
      for (Index s = 0; s < seen; ++s) mean += parts[s * width + 2 + V + c];
      using Head = HeadOfBlock<Size, CudaCores<S>, S>;
      sum = sum - in.gamma[h] * (mean * (S(1) / Head::series(slope, static_cast<int>(Head::seen(token + 1)))));
    }
    const Index at = row * Size::value_stride + h * V + c;
    if constexpr (Size::gains > 0) sum += in.alpha[h] * wide(in.value[at]);
    store_as(out[at], sum);
  }
}

/// So that a GPU has some 256 blocks, if there are as many tiles, of so many rows of each sequence: tiles of the
/// context, or as many as the windows of a block's rows reach, wherever these are.
constexpr StepSpans step_spans(int heads, Index sequences, Index rows, Index context, int window = 0) {
  const Index of_context = round_up(context, step_tile) / step_tile;
  const Index reached = (Index(window) + step_rows(rows) - 3 + step_tile) / step_tile + 1;
  const Index tiles = window == 0 ? of_context : std::min(of_context, reached);
  const Index others = heads * sequences * ((rows + step_rows(rows) - 1) / step_rows(rows));
  const Index wanted = std::clamp<Index>((256 + others - 1) / others, 1, tiles), each = (tiles + wanted - 1) / wanted;
  return {.count = (tiles + each - 1) / each, .tiles = each};
}

/// Elements of `parts` for rows of one sequence, or one row of each, in a context of so many tokens.
template <AttentionSize size>
constexpr Index attention_step_parts(Index most_rows, Index most_sequences, Index context) {
  Index most = 0;
  for (Index rows = 1; rows <= most_rows; ++rows) {
    most = std::max(most, rows * step_spans(size.heads, 1, rows, context, size.window).count);
  }
  for (Index sequences = 2; sequences <= most_sequences; ++sequences) {
    most = std::max(most, sequences * step_spans(size.heads, sequences, 1, context, size.window).count);
  }
  return most * size.heads * step_part<Fixed<size>>;
}

/// Remembers the new tokens of some sequences, and gives what each of them attends to.
///
/// Shapes  operands and out as of attention; stores have whole tiles for `context` tokens of each sequence of a stream,
///         step_tokens at most, and the columns of key_heads and value_heads heads: heads / key_heads that follow one
///         another have equal keys. One sequence, or one row of each. `parts` holds attention_step_parts elements
/// Cost    per new token t and head, t (key_width + value_width) multiply-adds, t value_width more of shaped attention;
///         a window in place of t. Stores are read once for each token, or each eight of several
/// Source  He & Hofmann 2024, Eqs. (2), (4), (5) and (13); Dao et al. 2022, Algorithm 1
template <AttentionSize size, int key_heads = size.heads, int value_heads = size.heads, class Operands, class T,
          class Out, class S>
  requires(size.mask == Mask::causal)
void attention_steps(cudaStream_t stream, const StepSequences& sequences, Index context, const Operands& in,
                     const AttentionStores<T>& stores, Out* out, S* parts) {
  using Size = Fixed<size>;
  if (size.window > 0 && sequences.rows > step_ring_rows) {
    constexpr Index keys = step_ring_rows * Size::key_stride, values = step_ring_rows * Size::value_stride;
    StepSequences some = sequences;
    some.rows = step_ring_rows;
    attention_steps<size, key_heads, value_heads>(stream, some, context, in, stores, out, parts);
    some.rows = sequences.rows - some.rows, some.since += step_ring_rows;
    Operands rest = in;
    rest.query += keys, rest.key += keys, rest.value += values;
    return attention_steps<size, key_heads, value_heads>(stream, some, context, rest, stores, out + values, parts);
  }
  const Index rows = sequences.rows;
  const StepSpans spans = step_spans(size.heads, sequences.count, rows, context, size.window);
  const auto attend = [&]<int together>(std::integral_constant<int, together>) {
    launch(stream, attention_step_kernel<Size, together, key_heads, value_heads, Operands, T, S>,
           dim3(blocks_for(spans.count, 1), size.heads, blocks_for(sequences.count * rows, together)), step_threads,
           sequences, spans.tiles, in, stores, parts);
  };
  if (rows == 1) {
    attend(std::integral_constant<int, step_rows(1)>{});
  } else {
    attend(std::integral_constant<int, step_rows(2)>{});
  }
  const unsigned threads = std::min(128u, std::max(32u, std::bit_ceil(static_cast<unsigned>(size.value_width))));
  launch(stream, attention_spans_kernel<Size, Operands, Out, S>,
         dim3(blocks_for(rows, 1), size.heads, blocks_for(sequences.count, 1)), threads, sequences, spans.tiles,
         spans.count, in, out, parts);
}

}  // namespace simplx::gpu
