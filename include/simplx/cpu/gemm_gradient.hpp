// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/gemm_gradient.hpp
/// The gradient of a matrix that a product multiplied by, dw += x^T dy, by the tiles of gemm.hpp.

#include <simplx/core/turn.hpp>
#include <simplx/cpu/gemm.hpp>
#include <simplx/cpu/panels.hpp>

#include <algorithm>
#include <cstring>

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Rows that a gradient takes at once: with more of them a panel of dy (AVX-512) or a tile of x falls out of the cache
/// before the next tile needs it.
inline constexpr Index gradient_rows = vector_bytes == 64 ? 128 : 256;
/// Columns of x (rows, K) that a gradient (K, N) copies at once, in the order of its tiles; 0: it reads them where they
/// are, a line for each row, all of them in a few sets of the cache where K is a multiple of a power of two. The tiles
/// of AVX-512 are so wide that a narrow gradient would not pay for the copy. With AVX2 copy and panel take no more room
/// than the scratch of attention with heads of 16.
template <class S>
constexpr Index gradient_columns(Index N) {
  if (vector_bytes < 64) return 29 * tile_rows;
  return N < 8 * panel_width<S> ? 0 : 64 * tile_rows;
}

/// Rows of a gradient that it adds to in one turn.
inline constexpr Index rows_in_turn = 24 * 29 * tile_rows;

/// Words of scratch that gemm_gradient needs for dw (any, N) of type S.
template <class S>
constexpr Index gradient_scratch(Index rows, Index N) {
  return std::min(rows, gradient_rows) * (panel_width<S> + gradient_columns<S>(N));
}

/// The first columns of x (rows, K), tile after tile, each (rows, tile_rows).
template <Index K, class W>
__attribute__((noinline)) void copy_tiles(Index rows, Index columns, const W* x, W* tiles) {
  constexpr Index together = 8;  // of a row, which is a page of its own where K is large
  // Eight floats are one instruction where six are two: the next row's come over what is too much.
  constexpr Index taken = std::max<Index>(tile_rows, 32 / sizeof(W));
  constexpr Index line = 64 / sizeof(W), step = together * tile_rows;
  const auto copy = [&](Index p, Index i, auto words) __attribute__((always_inline)) {
    std::memcpy(tiles + i * rows + p * tile_rows, x + p * K + i, words * sizeof(W));
  };
  for (Index begin = 0; begin < columns; begin += step) {
    const Index end = std::min(begin + step, columns);
    for (Index p = 0; p < rows - 1; ++p) {
      SIMPLX_UNROLL
      for (Index ahead = 0; ahead < step; ahead += line) {
        __builtin_prefetch(x + p * K + begin + step + ahead, 0, 2);  // the next ones, too far apart for the hardware
      }
      for (Index i = begin; i < end; i += tile_rows) copy(p, i, Static<taken>{});
    }
    for (Index i = begin; i < end; i += tile_rows) copy(rows - 1, i, Static<tile_rows>{});
  }
}

/// Rows [from, from + span) of dw, as in gemm_gradient.
template <Index K, Index N, class W, class S>
__attribute__((noinline)) void add_gradient_rows(Index rows, const W* x, const W* dy, S* dw, W* scratch, Index from,
                                                 Index span) {
  constexpr Index wide = panel_width<S>, whole = N / wide * wide, vectors = whole_vectors<N, S>;
  constexpr Index line = 64 / sizeof(W);
  const Index blocks = (rows + gradient_rows - 1) / gradient_rows;
  dw += from * N;
  for (Index block = 0; block < blocks; ++block) {
    const Index begin = rows * block / blocks, count = rows * (block + 1) / blocks - begin;
    const W* left = x + begin * K + from;
    const W* right = dy + begin * N;
    const auto copy_panel = [&](Index col) { pack_panel<wide>(count, right + col, N, scratch); };
    constexpr Index copied = gradient_columns<S>(N);
    if constexpr (copied == 0) {
      // Of x a tile reads a few columns, a line for each row: too far apart for the hardware to fetch the next ones.
      const auto next_line = [&](Index i) { return FetchEachStep{left + i + line, Static<K>{}}; };
      for (Index col = 0; col < whole; col += wide) {
        copy_panel(col);
        panel<tile_rows, tile_vectors, Write::accumulate>(span, count, left, Static<1>{}, Static<K>{}, scratch,
                                                          Static<wide>{}, dw + col, Static<N>{}, NoEpilogue{}, col,
                                                          next_line);
      }
    } else if constexpr (whole > 0) {
      W* const tiles = scratch + count * wide;
      // With AVX2 the first tiles fetch the next panel, a row in each turn.
      const auto next_panel = [&](Index col, Index i) {
        if constexpr (vector_bytes == 64) {
          return NoFetch{};
        } else {
          const Index turns = count / tile_steps, row = std::min(i / tile_rows * turns, count - turns);
          return FetchAhead{right + row * N + col + wide, Static<N>{}};
        }
      };
      for (Index first = 0; first < span; first += copied) {
        const Index columns = std::min(span - first, copied), tiled = columns - columns % tile_rows;
        copy_tiles<K>(count, tiled, left + first, tiles);
        for (Index col = 0; col < whole; col += wide) {
          copy_panel(col);
          S* const to = dw + first * N + col;
          for (Index i = 0; i < tiled; i += tile_rows) {
            tile<tile_rows, tile_vectors, Write::accumulate>(count, tiles + i * count, Static<1>{}, Static<tile_rows>{},
                                                             scratch, Static<wide>{}, to + i * N, Static<N>{},
                                                             NoEpilogue{}, i, col, next_panel(col, i));
          }
          rows_left<half_below(tile_rows), tile_vectors, Write::accumulate>(
              columns - tiled, count, left + first + tiled, Static<1>{}, Static<K>{}, scratch, Static<wide>{},
              to + tiled * N, Static<N>{});
        }
      }
    }
    if constexpr (whole < vectors) {
      for (Index col = whole; col < vectors; col += lanes<S>) {
        panel<8, 1, Write::accumulate>(span, count, left, Static<1>{}, Static<K>{}, right + col, Static<N>{}, dw + col,
                                       Static<N>{}, NoEpilogue{}, col);
      }
    }
    if constexpr (vectors < N) {
      pack_last_panel<N - vectors>(count, right + vectors, N, scratch);
      last_panel<N - vectors, Write::accumulate>(span, count, left, Static<1>{}, Static<K>{}, scratch, dw + vectors,
                                                 Static<N>{}, NoEpilogue{}, vectors);
    }
  }
}

/// dw (K, N) += x^T dy, x (rows, K), dy (rows, N); scratch holds gradient_scratch<S>(rows, N) words. Takes a turn for
/// every rows_in_turn rows of dw, so that who comes next need not wait for all of a large one.
///
/// Cost    2 rows K N FLOPs, and one pass over x and dy, over dy one for each gradient_columns of x; dw is read and
///         written once for every gradient_rows
template <Index K, Index N, class W, class S>
void gemm_gradient(Index rows, const W* x, const W* dy, S* dw, W* scratch, detail::Turn* turn = nullptr) {
  for (Index from = 0; from < K; from += rows_in_turn) {
    const detail::Addition addition(turn);
    add_gradient_rows<K, N>(rows, x, dy, dw, scratch, from, std::min(K - from, rows_in_turn));
  }
}

}  // namespace simplx::cpu
