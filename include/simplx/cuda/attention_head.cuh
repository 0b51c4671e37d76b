// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/attention_head.cuh
/// What a block of attention's kernels knows of its head: operands, gains, what a query sees, biases, weights of A and
/// C, and what is dropped.

#include <simplx/cpu/attention_size.hpp>
#include <simplx/cuda/port.cuh>

#include <cmath>
#include <limits>
#include <type_traits>

namespace simplx::inline SIMPLX_TARGET::gpu {

/// AttentionDraw with its rate in the device's memory.
template <class S>
struct DeviceDraw {
  const S* rate = nullptr;
  const detail::Draw* step = nullptr;
  std::uint64_t node = 0;
  __device__ operator AttentionDraw() const { return {static_cast<double>(*rate), step, node}; }
};
/// AttentionOperands where query, key and value are of several types.
template <class Query, class Key, class Value, class S>
struct MixedOperands {
  const Query* query;
  const Key* key;
  const Value* value;
  const S *alpha = nullptr, *beta = nullptr, *gamma = nullptr, *slopes = nullptr;
  DeviceDraw<S> draw{};
};

/// The size as a type, for kernels: for those with a parameter of class type nvcc 13 writes host code that does not
/// compile.
template <int head_count, int width_of_keys, int width_of_values, AttentionMatrix matrix, Mask mask, bool biased,
          int tokens_seen>
struct FixedSize {
  static constexpr int heads = head_count, key_width = width_of_keys, value_width = width_of_values;
  static constexpr int gains = matrix == AttentionMatrix::softmax ? 0 : matrix == AttentionMatrix::skip_init ? 2 : 3;
  static constexpr bool causal = mask == Mask::causal, alibi = biased, centred = matrix == AttentionMatrix::shaped;
  static constexpr bool drops = false;
  static constexpr int window = tokens_seen;  ///< 0: there is none
  static constexpr Index key_stride = Index(heads) * key_width, value_stride = Index(heads) * value_width;
};
/// One that drops weights.
template <class Size>
struct DroppingSize : Size {
  static constexpr bool drops = true;
};
template <AttentionSize size>
struct FixedOf {
  using Whole =
      FixedSize<size.heads, size.key_width, size.value_width, size.matrix, size.mask, size.alibi, size.window>;
  using type = std::conditional_t<size.drops, DroppingSize<Whole>, Whole>;
};
template <AttentionSize size>
using Fixed = typename FixedOf<size>::type;

/// Those of a head.
template <class S>
struct HeadGains {
  S alpha = 0, beta = 1, gamma = 0;
};

/// What one block attends with: a head of a sequence. Blocks of the grid: (tiles * sequences, heads).
template <class Size, class Cores, class S>
struct HeadOfBlock {
  static constexpr S unseen = -std::numeric_limits<S>::infinity();  ///< the score of a key that is masked
  /// By so much a score may be above what exponentials are relative to, as they lose no digits by being some hundreds:
  /// after the first tile hardly a sum is scaled anew, as in FlashAttention-4.
  static constexpr S slack = 6;

  Index first;        ///< token of the sequence
  int rows, h, tile;  ///< tokens of the sequence; head; number of the block within both
  S slope = 0;

  template <class Operands>
  __device__ HeadOfBlock(const Index* offsets, Index sequences, const Operands& in)
      : h(static_cast<int>(blockIdx.y)), tile(static_cast<int>(blockIdx.x / sequences)) {
    const Index s = blockIdx.x % sequences;
    first = offsets[s];
    rows = static_cast<int>(offsets[s + 1] - first);
    if constexpr (Size::alibi) slope = in.slopes[h];
  }

  /// Read where they are needed: registers are short where scores are.
  template <class Operands>
  __device__ HeadGains<S> gains(const Operands& in) const {
    HeadGains<S> of;
    if constexpr (Size::gains > 0) of.alpha = in.alpha[h], of.beta = in.beta[h];
    if constexpr (Size::centred) of.gamma = in.gamma[h];
    return of;
  }

  template <class Operands>
  __device__ DroppedWeights<S> dropped(Index sequences, const Operands& in) const {
    if constexpr (Size::drops) {
      return {in.draw, static_cast<Index>(blockIdx.x) % sequences, h};
    } else {
      return {};
    }
  }

  /// The number of the tile if those that see the most keys, the last, begin first.
  __device__ int tile_from_last(Index sequences) const { return static_cast<int>(gridDim.x / sequences) - 1 - tile; }

  /// Where a row of this head is in (tokens, heads * width) and in (tokens, heads).
  __device__ Index key_at(int row) const { return (first + row) * Size::key_stride + Index(h) * Size::key_width; }
  __device__ Index value_at(int row) const { return (first + row) * Size::value_stride + Index(h) * Size::value_width; }
  __device__ Index row_at(int row) const { return (first + row) * Size::heads + h; }

  __device__ static S scale() { return S(1) / std::sqrt(S(Size::key_width)); }
  /// Whether query i sees key j.
  __device__ bool sees(int i, int j) const {
    if constexpr (Size::window > 0) {  // one comparison, as a negative number is a large one: registers are short
      const unsigned window = Size::window, distance = static_cast<unsigned>(i - j);
      return j < rows && (Size::causal ? distance < window : distance + (window - 1) < 2 * window - 1);
    } else {
      return j < rows && (!Size::causal || j <= i);
    }
  }
  /// Whether each of some queries from i on sees each of some keys from j on: true of most tiles, which then need no
  /// mask.
  __device__ bool all_see(int i, [[maybe_unused]] int queries, int j, int keys) const {
    if constexpr (Size::window > 0) {
      if (!near(i + queries - 1 - j, j + keys - 1 - i)) return false;
    }
    return j + keys <= rows && (!Size::causal || j + keys <= i + 1);
  }
  /// Whether any of some queries from i on sees any of some keys from j on: else the warps that have them have nothing
  /// to do.
  __device__ bool some_see(int i, int queries, int j, [[maybe_unused]] int keys) const {
    if constexpr (Size::window > 0) {
      if (!near(i - (j + keys - 1), j - (i + queries - 1))) return false;
    }
    return i < rows && j < rows && (!Size::causal || j < i + queries);
  }
  /// With a window: no row before this one is near to any from `begin` on. It begins a tile of so many without a window
  /// too, so that as few tiles need a mask.
  __device__ static int near_begin(int begin, int tile) {
    return begin < Size::window ? 0 : (begin - Size::window + 1) / tile * tile;
  }
  /// Where the keys end that queries before `end` see, and the queries that see keys before it.
  __device__ int keys_end(int end) const { return Size::causal ? (end < rows ? end : rows) : queries_end(end); }
  __device__ int queries_end(int end) const {
    return Size::window == 0 || rows - end < Size::window ? rows : end + Size::window - 1;
  }
  __device__ S bias(int i, int j) const {
    return Size::alibi ? -(slope * Cores::unit) * S(i < j ? j - i : i - j) : S(0);
  }
  /// The score of query i and key j in the unit of the cores, as if i saw j, is factor() times the product of their
  /// rows, and the bias.
  __device__ static S factor() { return scale() * Cores::unit; }
  /// A_ij of a log_sum in that unit, and C_ij of the row's 1 / Z_i; as if i saw j.
  __device__ S weight(S product, S log_sum, int i, int j) const {
    return Cores::power(product * factor() + (bias(i, j) - log_sum));
  }
  __device__ S mean_weight(S inverse, int i, int j) const {
    return Size::alibi ? Cores::power(bias(i, j)) * inverse : inverse;
  }

  /// Z_i, the sum of exp(bias) over the keys that query i sees: geometric series to both sides.
  __device__ S mean_sum(int i) const { return mean_sum(slope, i, rows); }
  __device__ static S mean_sum(S slope, int i, int rows) {
    if (Size::causal) return series(slope, seen(i + 1));
    return Size::alibi || Size::window > 0 ? series(slope, seen(i + 1)) + series(slope, seen(rows - i)) - 1 : S(rows);
  }
  /// How many of so many keys to one side, the own one among them.
  template <class Count>
  SIMPLX_HD static constexpr Count seen(Count keys) {
    return Size::window == 0 || keys < Size::window ? keys : Count(Size::window);
  }
  /// 1 + lambda + ... of so many terms.
  __device__ static S series(S slope, int terms) {
    return slope == 0 ? S(terms) : std::expm1(-slope * S(terms)) / std::expm1(-slope);
  }

 private:
  /// Whether a window holds a key so far before a query, or behind it.
  __device__ static bool near(int before, int behind) {
    return before < Size::window && (Size::causal || behind < Size::window);
  }
};

}  // namespace simplx::gpu
