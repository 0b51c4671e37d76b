// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/piece_tiles.hpp
/// Operands of a matrix unit, in pieces (pieces.hpp). A step is 32 numbers of the inner dimension, 16 words of pairs:
/// the tiles of their first pieces, then those of the second and of the third ones.
///
///     left   rows of tiles, step after step; a tile is 16 rows of 16 words
///     right  strips of 32 columns, step after step; of each piece 16 words, one below the other, in 32 columns
///
/// What is missing to whole steps and tiles of rows is zero.

#include <simplx/cpu/amx.hpp>
#include <simplx/cpu/panels.hpp>
#include <simplx/cpu/pieces.hpp>

#include <algorithm>

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Numbers of the inner dimension in a step, columns of a strip.
inline constexpr Index step_depth = 2 * tile_side, strip_columns = 2 * tile_side;

/// Words of so many numbers in pieces.
constexpr Index words_in_pieces(Index numbers) { return numbers / 2 * float_pieces; }

/// Where a step of a strip begins whose inner dimension has that depth; of a piece it has strip_words.
inline constexpr Index strip_words = tile_side * strip_columns;
constexpr Index strip_place(Index col, Index depth, Index step) {
  return words_in_pieces(col * depth) + step * float_pieces * strip_words;
}

/// A square of words, piece by piece: numbers(i, front, back) gives the two numbers of each word of row i, and
/// write(piece, i, words) takes column i of the square.
template <class Numbers, class Pairing, class Writing>
__attribute__((always_inline)) inline void transpose_pieces(const Numbers& numbers, const Pairing& paired,
                                                            const Writing& write) {
  constexpr int L = lanes<float>;
  Vec<Twin> squares[float_pieces][L];
  SIMPLX_UNROLL
  for (int i = 0; i < L; ++i) {
    Vec<float> front, back;
    numbers(i, front, back);
    const Pieces a(front), b(back);
    SIMPLX_UNROLL
    for (int piece = 0; piece < float_pieces; ++piece) squares[piece][i] = paired(a.of[piece], b.of[piece]);
  }
  SIMPLX_UNROLL
  for (int piece = 0; piece < float_pieces; ++piece) {
    transpose_vectors<Twin>(squares[piece]);
    SIMPLX_UNROLL
    for (int i = 0; i < L; ++i) write(piece, i, squares[piece][i]);
  }
}

/// a (rows, depth), rows that are `stride` numbers apart, as a left operand; a row for which taken(row, extent) is
/// false becomes zeros.
///
/// Cost    one pass
template <class Taken>
__attribute__((noinline)) void pack_left_pieces(Index rows, Index depth, const float* a, Index stride,
                                                const Taken& taken, Twin* tiles) {
  constexpr Index L = lanes<float>;
  const Index steps = depth / step_depth;
  for (Index row = 0; row < round_up(rows, tile_side); ++row) {
    Twin* const to = tiles + row / tile_side * steps * float_pieces * tile_words + row % tile_side * tile_side;
    Measure measure;
    if (row < rows) {
      const float* from = a + row * stride;
      Twin* place = to;
      for (Index step = 0; step < steps; ++step, from += step_depth, place += float_pieces * tile_words) {
        SIMPLX_UNROLL
        for (Index i = 0; i < tile_side; i += L) {
          const Vec<float> x = load<Vec<float>>(from + 2 * i), y = load<Vec<float>>(from + 2 * i + L);
          measure(x), measure(y);
          const Pieces front(x), back(y);
          SIMPLX_UNROLL
          for (int piece = 0; piece < float_pieces; ++piece) {
            store(place + piece * tile_words + i, pairs_along(front.of[piece], back.of[piece]));
          }
        }
      }
    }
    if (row < rows && taken(row, measure.extent())) continue;
    for (Index tile = 0; tile < steps * float_pieces; ++tile) std::fill_n(to + tile * tile_words, tile_side, Twin(0));
  }
}

/// The transpose (columns, rows) of x (rows, columns) as a left operand; columns are whole tiles.
///
/// Cost    one pass
inline __attribute__((noinline)) Extent pack_transposed_left_pieces(Index rows, Index columns, const float* x,
                                                                    Index stride, Twin* tiles) {
  constexpr Index L = lanes<float>;
  const Index steps = (rows + step_depth - 1) / step_depth;
  Measure measure;
  for (Index step = 0; step < steps; ++step) {
    for (Index col = 0; col < columns; col += L) {
      const Index tile = (col / tile_side * steps + step) * float_pieces;
      Twin* const to = tiles + tile * tile_words + col % tile_side * tile_side;
      for (Index word = 0; word < tile_side; word += L) {
        const Index above = step * step_depth + 2 * word;
        const auto number = [&](Index row) __attribute__((always_inline)) {
          return row < rows ? load<Vec<float>>(x + row * stride + col) : Vec<float>{};
        };
        const auto numbers = [&](int i, Vec<float>& front, Vec<float>& back) __attribute__((always_inline)) {
          front = number(above + 2 * i), back = number(above + 2 * i + 1);
          measure(front), measure(back);
        };
        transpose_pieces(numbers, join_pairs, [&](int piece, int i, Vec<Twin> words) {
          store(to + piece * tile_words + i * tile_side + word, words);
        });
      }
    }
  }
  return measure.extent();
}

/// A matrix (rows, columns), whose rows are `stride` numbers apart, as a right operand; columns are whole strips.
///
/// Cost    one pass
template <class Writing = Storing>
__attribute__((noinline)) Extent pack_right_pieces(Index rows, Index columns, const float* matrix, Index stride,
                                                   Twin* strips, Writing write = {}) {
  constexpr Index L = lanes<float>;
  const Index depth = round_up(rows, step_depth);
  Measure measure;
  for (Index row = 0; row < depth; row += 2, matrix += 2 * stride) {
    for (Index col = 0; col < columns; col += strip_columns) {
      Twin* const to =
          strips + strip_place(col, depth, row / step_depth) + row % step_depth / 2 * strip_columns;
      SIMPLX_UNROLL
      for (Index i = 0; i < strip_columns; i += L) {
        const Vec<float> above = row < rows ? load<Vec<float>>(matrix + col + i) : Vec<float>{};
        const Vec<float> below = row + 1 < rows ? load<Vec<float>>(matrix + stride + col + i) : Vec<float>{};
        measure(above), measure(below);
        const Pieces a(above), b(below);
        SIMPLX_UNROLL
        for (int piece = 0; piece < float_pieces; ++piece) {
          write(to + piece * strip_words + i, join_pairs(a.of[piece], b.of[piece]));
        }
      }
    }
  }
  return measure.extent();
}

/// The transpose (depth, columns) of a (columns, depth) matrix as a right operand; both are whole strips.
///
/// Cost    one pass
template <class Writing = Storing>
__attribute__((noinline)) Extent pack_transposed_right_pieces(Index depth, Index columns, const float* matrix,
                                                              Twin* strips, Writing write = {}) {
  constexpr Index L = lanes<float>;
  Measure measure;
  for (Index col = 0; col < columns; col += strip_columns) {
    for (Index step = 0; step < depth / step_depth; ++step) {
      Twin* const to = strips + strip_place(col, depth, step);
      for (Index word = 0; word < tile_side; word += L) {
        for (Index i = 0; i < strip_columns; i += L) {
          const float* const from = matrix + (col + i) * depth + step * step_depth + 2 * word;
          const auto numbers = [&](int q, Vec<float>& front, Vec<float>& back) __attribute__((always_inline)) {
            const float* const row = from + q * depth;
            __builtin_prefetch(row + transposed_ahead<float>, 0, 2);
            __builtin_prefetch(row + transposed_ahead<float> + L, 0, 2);
            front = load<Vec<float>>(row), back = load<Vec<float>>(row + L);
            measure(front), measure(back);
          };
          transpose_pieces(numbers, pairs_along, [&](int piece, int q, Vec<Twin> words) {
            write(to + piece * strip_words + (word + q) * strip_columns + i, words);
          });
        }
      }
    }
  }
  return measure.extent();
}

}  // namespace simplx::cpu
