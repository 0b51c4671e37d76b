// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/gemm.hpp
/// Matrix products on one core: one register-tiled kernel with strides known at compile time.
///
/// A tile of `tile_rows` x `tile_vectors` accumulators stays in registers over the whole inner dimension;
/// weights are packed into panels as wide as the tile, so that the kernel reads them in order. The epilogue is
/// applied to the accumulators before they are stored. Static strides are what makes it reach the peak: with
/// run-time strides the same code runs at half of it.

#include <simplx/core/turn.hpp>
#include <simplx/cpu/bfloat16.hpp>
#include <simplx/cpu/panels.hpp>
#include <simplx/cpu/simd.hpp>

#include <algorithm>
#include <type_traits>
#include <utility>

namespace simplx::inline SIMPLX_TARGET {

/// The epilogue that changes nothing.
struct NoEpilogue {
  template <class V>
  __attribute__((always_inline)) V operator()(V accumulator, Index, Index) const {
    return accumulator;
  }
};

/// What a product fetches while it multiplies: nothing.
struct NoFetch {
  constexpr void operator()() const {}
};

/// One place of memory at each turn of the inner loop, into the second-level cache.
template <class S, class Step>
struct FetchAhead {
  const S* place;
  Step step;

  __attribute__((always_inline)) void operator()() {
    __builtin_prefetch(place, 0, 2);
    place += step;
  }
};
template <class S, class Step>
FetchAhead(const S*, Step) -> FetchAhead<S, Step>;

// Steps of the inner dimension in one turn of the loop. With AVX2 the 12 multiply-adds of a step take 6 cycles, and its
// 20 instructions with 5 that count, fetch and jump more than the 3 in a cycle that are left where another thread has
// half of the core. AVX-512 does twice as much in an instruction.
inline constexpr int tile_steps = vector_bytes == 32 ? 4 : 1;

namespace detail {

/// One tile: c[i, j] (=|+=) epilogue(sum_p a[i, p] b[p, j]), rows x vectors.
template <int rows, int vectors, Write mode, class W, class S, class ARow, class ACol, class BRow, class CRow,
          class Epilogue, class Fetch = NoFetch>
__attribute__((always_inline)) inline void tile(Index inner, const W* a, ARow a_row, ACol a_col, const W* b,
                                                BRow b_row, S* c, CRow c_row, const Epilogue& epilogue, Index row,
                                                Index col, Fetch fetch = {}) {
  using V = Vec<S>;
  using Words = Vec<W>;
  constexpr int L = lanes<S>;
  V sums[rows][vectors];
  SIMPLX_UNROLL
  for (int i = 0; i < rows; ++i) {
    SIMPLX_UNROLL
    for (int j = 0; j < vectors; ++j) sums[i][j] = V{};
  }
  const auto step = [&](auto ahead) __attribute__((always_inline)) {
    Words right[vectors];
    SIMPLX_UNROLL
    for (int j = 0; j < vectors; ++j) right[j] = load<Words>(b + ahead * b_row + j * L);
    SIMPLX_UNROLL
    for (int i = 0; i < rows; ++i) {
      const Words left = splat<Words>(load<W>(a + i * a_row + ahead * a_col));
      SIMPLX_UNROLL
      for (int j = 0; j < vectors; ++j) sums[i][j] = multiply_add(sums[i][j], left, right[j]);
    }
  };
  const auto turn = [&]<int... ahead>(std::integer_sequence<int, ahead...>) __attribute__((always_inline)) {
    constexpr Index steps = sizeof...(ahead);
    fetch();
    (step(Static<ahead>{}), ...);
    a += steps * a_col;
    b += steps * b_row;
  };
  using Once = std::integer_sequence<int, 0>;
  Index p = 0;
  if constexpr (mode == Write::accumulate && vector_bytes == 64) {
    if (inner >= rows * vectors) {
      // The tile of c is fetched meanwhile, one line at a time: all at once would keep b waiting.
      for (int i = 0; i < rows; ++i) {
        SIMPLX_UNROLL
        for (int j = 0; j < vectors; ++j) {
          __builtin_prefetch(c + i * c_row + j * L, 1);
          turn(Once{});
        }
      }
      p = rows * vectors;
    }
  } else if constexpr (mode == Write::accumulate) {
    // Narrow tiles are done before their own lines come: those of the next one below are fetched.
    SIMPLX_UNROLL
    for (int i = 0; i < rows; ++i) __builtin_prefetch(c + (rows + i) * c_row, 1);
  }
  if constexpr (tile_steps > 1) {
    SIMPLX_ROLLED
    for (; p + tile_steps <= inner; p += tile_steps) turn(std::make_integer_sequence<int, tile_steps>{});
  }
  for (; p < inner; ++p) turn(Once{});
  SIMPLX_UNROLL
  for (int i = 0; i < rows; ++i) {
    SIMPLX_UNROLL
    for (int j = 0; j < vectors; ++j) {
      V value = epilogue(sums[i][j], row + i, col + j * L);
      S* place = c + i * c_row + j * L;
      if constexpr (mode == Write::accumulate) value += load<V>(place);
      store(place, value);
    }
  }
}

/// What is left below the last full tile, by halves: 4, 2, 1 rows.
template <int rows, int vectors, Write mode, class W, class S, class ARow, class ACol, class BRow, class CRow,
          class Epilogue>
__attribute__((always_inline)) inline void row_tail(Index left, Index inner, const W* a, ARow a_row, ACol a_col,
                                                    const W* b, BRow b_row, S* c, CRow c_row,
                                                    const Epilogue& epilogue, Index row, Index col) {
  if constexpr (rows > 0) {
    if (left & rows) {
      tile<rows, vectors, mode>(inner, a, a_row, a_col, b, b_row, c, c_row, epilogue, row, col);
      a += rows * a_row;
      c += rows * c_row;
      row += rows;
    }
    row_tail<rows / 2, vectors, mode>(left, inner, a, a_row, a_col, b, b_row, c, c_row, epilogue, row, col);
  }
}

constexpr int half_below(int rows) { return rows > 8 ? 8 : rows > 4 ? 4 : rows > 2 ? 2 : 1; }

}  // namespace detail

/// All rows of one panel of columns: c (rows, vectors * lanes) at `col`; fetch(i) is what the tile of row i fetches.
template <int rows_per_tile, int vectors, Write mode, class W, class S, class ARow, class ACol, class BRow,
          class CRow, class Epilogue, class FetchOf>
__attribute__((always_inline)) inline void panel(Index rows, Index inner, const W* a, ARow a_row, ACol a_col,
                                                 const W* b, BRow b_row, S* c, CRow c_row, const Epilogue& epilogue,
                                                 Index col, const FetchOf& fetch) {
  Index i = 0;
  SIMPLX_ROLLED
  for (; i + rows_per_tile <= rows; i += rows_per_tile) {
    detail::tile<rows_per_tile, vectors, mode>(inner, a + i * a_row, a_row, a_col, b, b_row, c + i * c_row, c_row,
                                               epilogue, i, col, fetch(i));
  }
  if (i < rows) {
    detail::row_tail<detail::half_below(rows_per_tile), vectors, mode>(rows - i, inner, a + i * a_row, a_row, a_col,
                                                                       b, b_row, c + i * c_row, c_row, epilogue, i,
                                                                       col);
  }
}
template <int rows_per_tile, int vectors, Write mode, class W, class S, class ARow, class ACol, class BRow,
          class CRow, class Epilogue>
__attribute__((always_inline)) inline void panel(Index rows, Index inner, const W* a, ARow a_row, ACol a_col,
                                                 const W* b, BRow b_row, S* c, CRow c_row, const Epilogue& epilogue,
                                                 Index col) {
  panel<rows_per_tile, vectors, mode>(rows, inner, a, a_row, a_col, b, b_row, c, c_row, epilogue, col,
                                      [](Index) { return NoFetch{}; });
}

namespace detail {

/// c (rows, width) (=|+=) epilogue(a * b), `width` less than a vector: b is padded to one, and what the tiles give is
/// stored number by number.
template <Index width, Write mode, class W, class S, class ARow, class ACol, class CRow, class Epilogue>
void last_panel(Index rows, Index inner, const W* a, ARow a_row, ACol a_col, const W* b, S* c, CRow c_row,
                const Epilogue& epilogue, Index col) {
  constexpr Index L = lanes<S>, together = 8;
  for (Index begin = 0; begin < rows; begin += together) {
    const Index count = std::min(together, rows - begin);
    S block[together * L];
    panel<together, 1, Write::store>(count, inner, a + begin * a_row, a_row, a_col, b, Static<L>{}, block, Static<L>{},
                                     NoEpilogue{}, 0);
    for (Index i = 0; i < count; ++i) {
      for (Index j = 0; j < width; ++j) {
        S value = epilogue(block[i * L + j], begin + i, col + j);
        S& place = c[(begin + i) * c_row + j];
        if constexpr (mode == Write::accumulate) value += place;
        place = value;
      }
    }
  }
}

}  // namespace detail

/// c (rows, N) (=|+=) epilogue(a (rows, K) * b), b packed by pack<K, N> or pack_transposed<K, N>. The words of a and
/// b are numbers of c's type, or pairs (bfloat16.hpp).
///
/// Cost    2 rows K N FLOPs
template <Index K, Index N, Write mode, class W, class S, class Epilogue>
__attribute__((noinline)) void gemm(Index rows, const W* a, const W* packed, S* c, const Epilogue& epilogue) {
  constexpr Index wide = panel_width<S>, whole = N / wide * wide, vectors = whole_vectors<N, S>;
  // Of the next panel, for each turn of this one.
  const Index share = wide * tile_rows * tile_steps / std::max<Index>(rows, 1) + 1;
  for (Index col = 0; col < whole; col += wide) {
    const W* next = packed + (col + wide) * K;
    panel<tile_rows, tile_vectors, mode>(
        rows, K, a, Static<K>{}, Static<1>{}, packed + col * K, Static<wide>{}, c + col, Static<N>{}, epilogue, col,
        [&](Index i) { return FetchAhead{next + i / tile_rows * (K / tile_steps) * share, share}; });
  }
  if constexpr (whole < vectors) {
    for (Index col = whole; col < vectors; col += lanes<S>) {
      panel<8, 1, mode>(rows, K, a, Static<K>{}, Static<1>{}, packed + col * K, Static<lanes<S>>{}, c + col,
                        Static<N>{}, epilogue, col);
    }
  }
  if constexpr (vectors < N) {
    detail::last_panel<N - vectors, mode>(rows, K, a, Static<K>{}, Static<1>{}, packed + vectors * K, c + vectors,
                                          Static<N>{}, epilogue, vectors);
  }
}

/// Rows that a gradient takes at once: more of x would fall out of the cache before the next tile needs it.
inline constexpr Index gradient_rows = 256;
/// Columns of x that it copies at once, in the order of its tiles. The wide tiles of AVX-512 read x so seldom that they
/// take it as it lies. With the panel no more than the scratch of attention with heads of 16.
inline constexpr Index gradient_columns = vector_bytes == 64 ? 0 : 29 * tile_rows;

/// Rows of a gradient that it adds to in one turn.
inline constexpr Index rows_in_turn = 24 * 29 * tile_rows;

/// Words of scratch that gemm_gradient needs for c of type S.
template <class S>
constexpr Index gradient_scratch(Index rows) {
  return std::min(rows, gradient_rows) * (panel_width<S> + gradient_columns);
}

namespace detail {

/// The first columns of x (rows, K), tile after tile, each (rows, tile_rows).
template <Index K, class W>
void copy_tiles(Index rows, Index columns, const W* x, W* tiles) {
  constexpr Index together = 8;  // of a row, which is a page of its own where K is large
  const auto copy = [&](Index p, Index i) __attribute__((always_inline)) {
    std::memcpy(tiles + i * rows + p * tile_rows, x + p * K + i, tile_rows * sizeof(W));
  };
  Index begin = 0;
  for (; begin + together * tile_rows <= columns; begin += together * tile_rows) {
    for (Index p = 0; p < rows; ++p) {
      constexpr Index taken = together * tile_rows, line = 64 / sizeof(W);
      SIMPLX_UNROLL
      for (Index ahead = 0; ahead < taken; ahead += line) {
        __builtin_prefetch(x + p * K + begin + taken + ahead, 0, 2);  // the next ones, too far apart for the hardware
      }
      SIMPLX_UNROLL
      for (Index tile = 0; tile < together; ++tile) copy(p, begin + tile * tile_rows);
    }
  }
  for (Index p = 0; p < rows; ++p) {
    for (Index i = begin; i < columns; i += tile_rows) copy(p, i);
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
    if constexpr (gradient_columns == 0) {
      // Of x a tile reads a few columns, a line for each row: too far apart for the hardware to fetch the next ones.
      const auto next_line = [&](Index i) { return FetchAhead{left + i + line, Static<K>{}}; };
      for (Index col = 0; col < whole; col += wide) {
        copy_panel(col);
        panel<tile_rows, tile_vectors, Write::accumulate>(span, count, left, Static<1>{}, Static<K>{}, scratch,
                                                          Static<wide>{}, dw + col, Static<N>{}, NoEpilogue{}, col,
                                                          next_line);
      }
    } else if constexpr (whole > 0) {
      W* const tiles = scratch + count * wide;
      for (Index first = 0; first < span; first += gradient_columns) {
        const Index columns = std::min(span - first, gradient_columns), tiled = columns - columns % tile_rows;
        copy_tiles<K>(count, tiled, left + first, tiles);
        for (Index col = 0; col < whole; col += wide) {
          copy_panel(col);
          S* const to = dw + first * N + col;
          for (Index i = 0; i < tiled; i += tile_rows) {
            // The first tiles fetch the next panel, a row in each turn.
            const Index turns = count / tile_steps, row = std::min(i / tile_rows * turns, count - turns);
            tile<tile_rows, tile_vectors, Write::accumulate>(
                count, tiles + i * count, Static<1>{}, Static<tile_rows>{}, scratch, Static<wide>{}, to + i * N,
                Static<N>{}, NoEpilogue{}, i, col, FetchAhead{right + row * N + col + wide, Static<N>{}});
          }
          row_tail<half_below(tile_rows), tile_vectors, Write::accumulate>(
              columns - tiled, count, left + first + tiled, Static<1>{}, Static<K>{}, scratch, Static<wide>{},
              to + tiled * N, Static<N>{}, NoEpilogue{}, tiled, col);
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

}  // namespace detail

/// dw (K, N) += x^T dy, x (rows, K), dy (rows, N); scratch holds gradient_scratch<S>(rows) words. Takes a turn for
/// every rows_in_turn rows of dw, so that who comes next need not wait for all of a large one.
///
/// Cost    2 rows K N FLOPs, and one pass over x and dy, over dy one for each gradient_columns of x; dw is read and
///         written once for every gradient_rows
template <Index K, Index N, class W, class S>
void gemm_gradient(Index rows, const W* x, const W* dy, S* dw, W* scratch, Turn* turn = nullptr) {
  for (Index from = 0; from < K; from += rows_in_turn) {
    const Addition addition(turn);
    detail::add_gradient_rows<K, N>(rows, x, dy, dw, scratch, from, std::min(K - from, rows_in_turn));
  }
}

namespace detail {

/// A function of its own: amid others g++ runs out of registers for the tile.
template <int rows_per_tile, int vectors, Write mode, class S, class ARow, class ACol, class BRow, class CRow>
__attribute__((noinline)) void strided_panel(Index rows, Index inner, const S* a, ARow a_row, ACol a_col, const S* b,
                                             BRow b_row, S* c, CRow c_row) {
  panel<rows_per_tile, vectors, mode>(rows, inner, a, a_row, a_col, b, b_row, c, c_row, NoEpilogue{}, 0);
}

}  // namespace detail

/// c (rows, N) (=|+=) a (rows, inner) * b (inner, N) with any strides; rows and inner are known at run time.
template <Index N, Write mode, class S, class ARow, class ACol, class BRow, class CRow>
void gemm_strided(Index rows, Index inner, const S* a, ARow a_row, ACol a_col, const S* b, BRow b_row, S* c,
                  CRow c_row) {
  static_assert(N % lanes<S> == 0, "simplx: the fast product needs a width that is a multiple of the vector, lanes<S>");
  constexpr int L = lanes<S>;
  constexpr Index pairs = N / (2 * L) * (2 * L);
  constexpr int rows_of_two = vector_bytes == 64 ? 8 : 6;  // 8 x 2 accumulators spill the 16 registers of AVX2
  for (Index col = 0; col < pairs; col += 2 * L) {
    detail::strided_panel<rows_of_two, 2, mode>(rows, inner, a, a_row, a_col, b + col, b_row, c + col, c_row);
  }
  if constexpr (pairs < N) {
    detail::strided_panel<8, 1, mode>(rows, inner, a, a_row, a_col, b + pairs, b_row, c + pairs, c_row);
  }
}

}  // namespace simplx
