// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/gemm_tiles.hpp
/// Products of pairs of bfloat16 on a matrix unit (amx.hpp), in blocks of 32 x 32 sums: two tiles of each operand give
/// four products of tiles.
///
/// The unit takes the right operand as pack_pairs leaves it. The left one is copied tile after tile, each 16 rows of
/// 16 pairs, so that a row of tiles is read from front to end.

#include <simplx/cpu/amx.hpp>
#include <simplx/cpu/gemm.hpp>

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Rows and columns of a block of sums.
inline constexpr Index block_side = 2 * tile_side;

/// Whether a matrix unit takes operands of that width: whole tiles of pairs.
constexpr bool fits_tiles(Index K) { return K % (2 * tile_side) == 0; }

/// The words of a left operand of that many rows, which is filled up with zeros.
constexpr Index left_tiles(Index rows, Index K) { return round_up(rows, tile_side) * K / 2; }

/// a (rows, K) rounded, tile after tile of 16 rows.
///
/// Cost    one pass
template <Index K>
void pack_left_tiles(Index rows, const float* a, Twin* tiles) {
  static_assert(fits_tiles(K));
  constexpr Index L = lanes<float>, steps = K / (2 * tile_side);
  for (Index row = 0; row < round_up(rows, tile_side); ++row) {
    Twin* to = tiles + row / tile_side * steps * tile_words + row % tile_side * tile_side;
    for (Index step = 0; step < steps; ++step, to += tile_words) {
      for (Index i = 0; i < tile_side; i += L) {
        const float* from = a + row * K + 2 * (step * tile_side + i);
        store(to + i, row < rows ? pairs_along(load<Vec<float>>(from), load<Vec<float>>(from + L)) : Vec<Twin>{});
      }
    }
  }
}

/// The transpose (K, rows) of x (rows, K) rounded, tile after tile of 16 columns of x, filled up with zeros to a
/// multiple of 32 rows.
///
/// Cost    one pass
template <Index K>
void pack_transposed_left_tiles(Index rows, const float* x, Twin* tiles) {
  static_assert(K % tile_side == 0);
  const Index steps = (rows + 2 * tile_side - 1) / (2 * tile_side);
  const auto numbers = [&](Index row, Index col) __attribute__((always_inline)) {
    return row < rows ? load<Vec<float>>(x + row * K + col) : Vec<float>{};
  };
  for (Index step = 0; step < steps; ++step) {
    for (Index first = 0; first < K; first += tile_side) {
      const auto pairs = [&](Index pair, Index col) __attribute__((always_inline)) {
        const Index row = 2 * (step * tile_side + pair);
        return pairs_of(numbers(row, first + col), numbers(row + 1, first + col));
      };
      Twin* const to = tiles + (first / tile_side * steps + step) * tile_words;
      transpose_squares<tile_side>(tile_side, pairs, to, Storing{});
    }
  }
}

/// dy (rows, N) rounded, in the panels of pack_pairs, filled up with zeros to a multiple of 32 rows.
///
/// Cost    one pass
template <Index N>
void pack_right_tiles(Index rows, const float* dy, Twin* packed) {
  const Index pairs = round_up(rows, 2 * tile_side) / 2;
  for (Index pair = 0; pair < pairs; ++pair, dy += 2 * N) {
    each_panel<N, float>([&]<Index width>(Static<width>, Index col) {
      Twin* const to = packed + col * pairs + pair * width;
      if (2 * pair < rows) {
        pair_rows(width, dy + col, 2 * pair + 1 < rows ? dy + N + col : nullptr, to);
      } else {
        std::fill_n(to, width, Twin(0));
      }
    });
  }
}

/// Unit::multiply of one or two tiles.
template <int pieces, Write mode, class Unit>
__attribute__((noinline)) void multiply_tiles(const Unit& unit, bool below, bool beside, Index steps, const Twin* left,
                                              const Twin* right, Index right_row, float* c, Index c_row,
                                              FetchRows fetch) {
  const auto multiply = [&]<int rows, int cols>(std::integer_sequence<int, rows, cols>) {
    unit.template multiply<pieces, rows, cols, mode>(steps, left, right, right_row, c, c_row, fetch);
  };
  if (below && beside) return multiply(std::integer_sequence<int, 2, 2>{});
  if (below) return multiply(std::integer_sequence<int, 2, 1>{});
  if (beside) return multiply(std::integer_sequence<int, 1, 2>{});
  multiply(std::integer_sequence<int, 1, 1>{});
}

/// One block of c, `count` rows of it: its sums after the epilogue.
template <int pieces, Index N, Write mode, class Unit, class Epilogue>
__attribute__((noinline)) void tile_block(const Unit& unit, Index count, Index width, Index steps, const Twin* left,
                                          const Twin* right, Index right_row, float* c, const Epilogue& epilogue,
                                          Index row, Index col, FetchRows fetch = {}) {
  using V = Vec<float>;
  const bool below = count > tile_side, beside = width > tile_side;
  c += row * N + col;
  if (std::is_same_v<Epilogue, NoEpilogue> && count % tile_side == 0) {
    return multiply_tiles<pieces, mode>(unit, below, beside, steps, left, right, right_row, c, N, fetch);
  }
  alignas(64) float sums[block_side * block_side];
  multiply_tiles<pieces, Write::store>(unit, below, beside, steps, left, right, right_row, sums, block_side,
                                       fetch);
  for (Index i = 0; i < count; ++i) {
    for (Index j = 0; j < width; j += lanes<float>) {
      V value = epilogue.template at<V>(load<V>(sums + i * block_side + j), row + i, col + j);
      if constexpr (mode == Write::accumulate) value += load<V>(c + i * N + j);
      store(c + i * N + j, value);
    }
  }
}

/// c (rows, N) (=|+=) epilogue(left (rows, K) * b), left by pack_left_tiles, b packed by pack_pairs<K, N>. Where c is
/// added to there is no epilogue.
///
/// Cost    2 rows K N FLOPs; b is read once, left once for every panel of b; panels for each of the team's threads, and
///         its own Unit
template <class Unit, Index K, Index N, Write mode, class Epilogue, class Threads = std::nullptr_t>
void gemm_tiles(Index rows, const Twin* left, const Twin* packed, float* c, const Epilogue& epilogue,
                Threads team = nullptr) {
  static_assert(fits_tiles(K) && N % tile_side == 0);
  static_assert(mode == Write::store || std::is_same_v<Epilogue, NoEpilogue>);
  constexpr Index steps = K / (2 * tile_side), wide = panel_width<float>;
  divide(team, (N + wide - 1) / wide, rows * K * N, [&](Index begin, Index end) {
    const Unit unit{};
    each_panel<N, float>([&]<Index width>(Static<width>, Index col) {
      if (col < begin * wide || col >= end * wide) return;
      const Twin* right = packed + col * (K / 2);
      for (Index row = 0; row < rows; row += block_side) {
        const Index count = std::min(rows - row, block_side);
        for (Index i = 0; i < width; i += block_side) {
          tile_block<1, N, mode>(unit, count, std::min(width - i, block_side), steps, left + row * (K / 2), right + i,
                                 width, c, epilogue, row, col + i);
        }
      }
    });
  });
}

/// dw (K, N) += left (K, rows) * right (rows, N), left by pack_transposed_left_tiles, right by pack_right_tiles; of
/// dw the `span` rows from `from` on, both multiples of 16.
///
/// Cost    2 rows K N FLOPs; dw is read and written once
template <Index K, Index N, class Unit>
void gemm_gradient_tiles(const Unit& unit, Index rows, const Twin* left, const Twin* right, float* dw, Index from,
                         Index span) {
  static_assert(K % tile_side == 0 && N % tile_side == 0);
  const Index steps = (rows + 2 * tile_side - 1) / (2 * tile_side), pairs = steps * tile_side;
  for (Index row = from; row < from + span; row += block_side) {
    const Index count = std::min(from + span - row, block_side);
    each_panel<N, float>([&]<Index width>(Static<width>, Index col) {
      for (Index i = 0; i < width; i += block_side) {
        tile_block<1, N, Write::accumulate>(unit, count, std::min(width - i, block_side), steps, left + row * pairs,
                                            right + col * pairs + i, width, dw, NoEpilogue{}, row, col + i);
      }
    });
  }
}

}  // namespace simplx::cpu
