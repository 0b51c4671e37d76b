// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/gemm_pieces.hpp
/// The products of gemm.hpp, floats by a matrix unit: in pieces (piece_tiles.hpp) and blocks of 32 x 32 sums.
///
/// What the unit cannot take (Extent) is multiplied by vectors, from the operands as they are: a row of a product, or a
/// block of a gradient. So what is infinite or tiny comes out as with the other kernels, and no other row knows of it.
/// So are products of few rows, which would fill a part of a tile alone.

#include <simplx/core/turn.hpp>
#include <simplx/cpu/gemm.hpp>
#include <simplx/cpu/gemm_gradient.hpp>
#include <simplx/cpu/gemm_tiles.hpp>
#include <simplx/cpu/matrix_vector.hpp>
#include <simplx/cpu/piece_tiles.hpp>

#include <algorithm>
#include <cstring>

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Whether the operands of all three products of a layer are whole strips.
constexpr bool fits_pieces(Index K, Index N) { return K % strip_columns == 0 && N % strip_columns == 0; }

// What stays in the second level of the cache: rows of a left operand and numbers of the inner dimension that are
// multiplied at once, columns of a gradient's right operand.
inline constexpr Index piece_rows = 128, piece_depth = 1024, piece_columns = 512;

// The time of so few rows is that of reading the weights: 4 bytes each as they are, 6 in pieces. By vectors a token of
// a stream is 1.5 to 3 times as fast, four rows 1.2 to 2 times. Their sums are other ones, to rounding.
inline constexpr Index few_rows = 4;

/// Weights (K, N) as a right operand, and their Extent after them.
template <Index K, Index N>
struct PackedPieces {
  static constexpr Index extent_at = words_in_pieces(K * N);
  static constexpr Index words = extent_at + Index((sizeof(Extent) + sizeof(Twin) - 1) / sizeof(Twin));

  /// Of a (K, N) matrix, or of an (N, K) one if `transposed`.
  ///
  /// Cost    one pass
  template <bool transposed>
  static void pack(const float* matrix, Twin* packed) {
    written<words_in_pieces(K * N)>(packed, [&](auto write) {
      Extent extent;
      if constexpr (transposed) {
        extent = pack_transposed_right_pieces(K, N, matrix, packed, write);
      } else {
        extent = pack_right_pieces(K, N, matrix, N, packed, write);
      }
      std::memcpy(packed + extent_at, &extent, sizeof extent);
    });
  }
  static Extent extent(const Twin* packed) {
    Extent extent;
    std::memcpy(&extent, packed + extent_at, sizeof extent);
    return extent;
  }
};

/// The epilogue of rows that begin at `first`.
template <class Epilogue>
struct FromRow {
  const Epilogue& epilogue;
  Index first;

  template <class V>
  __attribute__((always_inline)) Register<V> at(Register<V> accumulator, Index row, Index col) const {
    return epilogue.template at<V>(accumulator, first + row, col);
  }
};

/// Rows [begin, end) of a product, from the (K, N) weights, (N, K) if `transposed`; strips of columns for each thread.
template <Index K, Index N, bool transposed, Write mode, class Epilogue, class Threads = std::nullptr_t>
__attribute__((noinline)) void rows_by_vectors(Index begin, Index end, const float* a, const float* weight, float* c,
                                               const Epilogue& epilogue, Threads team = nullptr) {
  using V = Vec<float>;
  constexpr Index L = lanes<float>;
  divide(team, N / strip_columns, (end - begin) * K * N, [&](Index first, Index last) {
    first *= strip_columns, last *= strip_columns;
    if constexpr (!transposed) {
      // Eight rows of weights at a time are read along, as memory likes it; the sums wait in c.
      constexpr Index depth = 8;
      constexpr bool completed = !std::is_same_v<Epilogue, NoEpilogue>;
      const auto part = [&]<Write part_mode>(std::integral_constant<Write, part_mode>, Index from, const auto& finish) {
        for (Index col = first; col < last; col += strip_columns) {
          panel<8, strip_columns / L, part_mode>(end - begin, Static<depth>{}, a + begin * K + from, Static<K>{},
                                                 Static<1>{}, weight + from * N + col, Static<N>{}, c + begin * N + col,
                                                 Static<N>{}, finish, col);
        }
      };
      part(std::integral_constant<Write, mode>{}, 0, NoEpilogue{});
      for (Index from = depth; from < K - completed * depth; from += depth) {
        part(std::integral_constant<Write, Write::accumulate>{}, from, NoEpilogue{});
      }
      if constexpr (completed) {
        const FromRow<Epilogue> moved{epilogue, begin};
        part(std::integral_constant<Write, Write::store>{}, K - depth,
             Completing<N, float, FromRow<Epilogue>>{c + begin * N, moved});
      }
    } else {
      for (Index col = first; col < last; col += L) {
        for (Index row = begin; row < end; ++row) {
          V products[L]{};
          for (Index i = 0; i < L; ++i) products[i] = RowProduct<K, float>(weight + (col + i) * K, a + row * K).vectors;
          V value = epilogue.template at<V>(lane_sums<float>(products), row, col);
          if constexpr (mode == Write::accumulate) value += load<V>(c + row * N + col);
          store(c + row * N + col, value);
        }
      }
    }
  });
}

/// Rows from `row` on, `count` of them, columns [begin, end), and what `depth` numbers of the inner dimension from
/// `from` on give of their products.
template <Index K, Index N, Write mode, class Unit, class Epilogue>
__attribute__((noinline)) void multiply_strips(const Unit& unit, Index row, Index count, Index begin, Index end,
                                               Index from, Index depth, const Twin* left, const Twin* packed, float* c,
                                               const Epilogue& epilogue) {
  constexpr Index row_bytes = strip_columns * Index(sizeof(Twin)), rows_of_step = float_pieces * tile_side;
  const Index steps = depth / step_depth, blocks = (count + block_side - 1) / block_side;
  for (Index col = begin; col < end; col += strip_columns) {
    const Twin* const right = packed + strip_place(col, K, from / step_depth);
    for (Index i = 0; i < count; i += block_side) {
      // Each block of rows fetches its share of the next strip.
      const Index share = (steps * rows_of_step + blocks - 1) / blocks;
      const Twin* const next = right + strip_place(strip_columns, K, 0) + i / block_side * share * strip_columns;
      tile_block<float_pieces, N, mode>(unit, std::min(count - i, block_side), block_side, steps,
                                  left + words_in_pieces(i * depth), right, strip_columns, c, epilogue, row + i, col,
                                  FetchRows{next, row_bytes, share, (share + 6 * steps - 1) / (6 * steps)});
    }
  }
}

/// Words of scratch that gemm_pieces needs.
constexpr Index product_pieces(Index rows, Index K) {
  return words_in_pieces(round_up(std::min(rows, piece_rows), tile_side) * std::min(K, piece_depth));
}

/// c (rows, N) (=|+=) epilogue(a (rows, K) * b), b the (K, N) weights, (N, K) if `transposed`, packed by PackedPieces;
/// scratch holds product_pieces(rows, K) words. Where c is added to there is no epilogue.
///
/// Cost    6 products of pieces: 12 rows K N FLOPs of the unit, and one pass over a, two where K > piece_depth; where
///         rows <= few_rows, 2 rows K N FLOPs of vectors. The team's threads share all of it, each with a Unit of its
///         own
template <class Unit, Index K, Index N, bool transposed, Write mode, class Epilogue, class Threads = std::nullptr_t>
void gemm_pieces(Index rows, const float* a, const float* weight, const Twin* packed, float* c,
                 const Epilogue& epilogue, Twin* scratch, Threads team = nullptr) {
  static_assert(fits_pieces(K, N));
  static_assert(mode == Write::store || std::is_same_v<Epilogue, NoEpilogue>);
  if (rows <= few_rows) {
    return rows_by_vectors<K, N, transposed, mode>(0, rows, a, weight, c, epilogue, team);
  }
  const Extent of_weights = PackedPieces<K, N>::extent(packed);
  for (Index row = 0; row < rows; row += piece_rows) {
    const Index count = std::min(rows - row, piece_rows);
    const float* const left = a + row * K;
    bool taken[piece_rows];
    if constexpr (K > piece_depth) {  // all of a row has to be known before the first part of it is multiplied
      for (Index i = 0; i < count; ++i) taken[i] = fit(extent_of<K>(left + i * K), of_weights);
    }
    const auto take = [&](Index i, Extent extent) {
      if constexpr (K <= piece_depth) taken[i] = fit(extent, of_weights);
      return taken[i];
    };
    const auto part = [&]<Write part_mode>(std::integral_constant<Write, part_mode>, Index from, const auto& last) {
      const Index depth = std::min(K - from, piece_depth);
      constexpr Index work_of_number = 8;  // of cutting one up, in multiply-adds
      divide(team, (count + tile_side - 1) / tile_side, count * depth * work_of_number, [&](Index tile, Index end) {
        const Index begin = tile * tile_side;
        pack_left_pieces(std::min(end * tile_side, count) - begin, depth, left + begin * K + from, K,
                         [&](Index i, Extent extent) { return take(begin + i, extent); },
                         scratch + words_in_pieces(begin * depth));
      });
      divide(team, N / strip_columns, count * depth * N, [&](Index begin, Index end) {
        multiply_strips<K, N, part_mode>(Unit{}, row, count, begin * strip_columns, end * strip_columns, from, depth,
                                         scratch, packed, c, last);
      });
    };
    if constexpr (K <= piece_depth) {
      part(std::integral_constant<Write, mode>{}, 0, epilogue);
    } else {
      constexpr bool completed = !std::is_same_v<Epilogue, NoEpilogue>;
      constexpr Index last = (K - 1) / piece_depth * piece_depth;
      part(std::integral_constant<Write, mode>{}, 0, NoEpilogue{});
      for (Index from = piece_depth; from < K - completed * (K - last); from += piece_depth) {
        part(std::integral_constant<Write, Write::accumulate>{}, from, NoEpilogue{});
      }
      if constexpr (completed) {
        part(std::integral_constant<Write, Write::store>{}, last, Completing<N, float, Epilogue>{c, epilogue});
      }
    }
    for (Index begin = 0; begin < count; ++begin) {
      if (taken[begin]) continue;
      Index end = begin + 1;
      while (end < count && !taken[end]) ++end;
      rows_by_vectors<K, N, transposed, mode>(row + begin, row + end, a, weight, c, epilogue, team);
      begin = end;
    }
  }
}

/// Words of scratch that gemm_gradient_pieces needs.
constexpr Index gradient_pieces(Index rows, Index K, Index N) {
  return words_in_pieces(round_up(std::min(rows, piece_rows), step_depth) *
                         (std::min(K, piece_depth) + std::min(N, piece_columns)));
}

/// dw (K, N) += x^T dy, x (rows, K), dy (rows, N); scratch holds gradient_pieces(rows, K, N) words. Turns as in
/// gemm_gradient.
///
/// Cost    6 products of pieces: 12 rows K N FLOPs of the unit, one pass over x, one over dy for every piece_depth
///         columns of x; dw is read and written once for every piece_rows
template <Index K, Index N, class Unit>
void gemm_gradient_pieces(const Unit& unit, Index rows, const float* x, const float* dy, float* dw, Twin* scratch,
                          detail::Turn* turn = nullptr) {
  static_assert(fits_pieces(K, N));
  const auto add_block = [&](Index row, Index count, Index from, Index span) {
    const Index steps = (count + step_depth - 1) / step_depth, depth = steps * step_depth;
    Twin* const right = scratch + words_in_pieces(depth * std::min(K, piece_depth));
    const float* const left_numbers = x + row * K + from;
    const Extent of_left = pack_transposed_left_pieces(count, span, left_numbers, K, scratch);
    for (Index first = 0; first < N; first += piece_columns) {
      const Index columns = std::min(N - first, piece_columns);
      const float* const right_numbers = dy + row * N + first;
      float* const to = dw + from * N + first;
      if (!fit(of_left, pack_right_pieces(count, columns, right_numbers, N, right))) {
        for (Index col = 0; col < columns; col += strip_columns) {
          gemm_strided<strip_columns, Write::accumulate>(span, count, left_numbers, Static<1>{}, Static<K>{},
                                                         right_numbers + col, Static<N>{}, to + col, Static<N>{});
        }
        continue;
      }
      for (Index i = 0; i < span; i += block_side) {
        for (Index col = 0; col < columns; col += strip_columns) {
          const FetchRows ahead{to + i * N + col + strip_columns, N * Index(sizeof(float)), block_side,
                                (block_side + 6 * steps - 1) / (6 * steps)};
          tile_block<float_pieces, N, Write::accumulate>(
              unit, std::min(span - i, block_side), block_side, steps, scratch + words_in_pieces(i * depth),
              right + words_in_pieces(col * depth), strip_columns, to, NoEpilogue{}, i, col, ahead);
        }
      }
    }
  };
  static_assert(rows_in_turn % tile_side == 0);
  for (Index from = 0; from < K; from += rows_in_turn) {
    const detail::Addition addition(turn);
    const Index end = std::min(from + rows_in_turn, K);
    for (Index row = 0; row < rows; row += piece_rows) {
      for (Index i = from; i < end; i += piece_depth) {
        add_block(row, std::min(rows - row, piece_rows), i, std::min(end - i, piece_depth));
      }
    }
  }
}

}  // namespace simplx::cpu
