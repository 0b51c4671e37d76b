// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/gemm.hpp
/// Matrix products: one register-tiled kernel with strides known at compile time.
///
/// A tile of `tile_rows` x `tile_vectors` accumulators stays in registers over the whole inner dimension;
/// weights are packed into panels as wide as the tile, so that the kernel reads them in order. The epilogue is
/// applied to the accumulators before they are stored. Static strides are what makes it reach the peak: with
/// run-time strides the same code runs at half of it.

#include <simplx/cpu/bfloat16.hpp>
#include <simplx/cpu/elements.hpp>
#include <simplx/cpu/int8.hpp>
#include <simplx/cpu/panels.hpp>
#include <simplx/cpu/simd.hpp>
#include <simplx/cpu/threads.hpp>

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace simplx::inline SIMPLX_TARGET::cpu {

/// The epilogue that changes nothing. at<V> is what an epilogue makes of accumulators, of which a part may count.
struct NoEpilogue {
  template <class V>
  __attribute__((always_inline)) Register<V> at(Register<V> accumulator, Index, Index) const {
    return accumulator;
  }
};

/// What a product fetches while it multiplies: nothing.
struct NoFetch {
  template <Index steps>
  constexpr void operator()(Static<steps>) const {}
};

/// One place of memory at each turn of the inner loop, however many steps it has, into the second-level cache.
template <class S, class Step>
struct FetchAhead {
  const S* place;
  Step step;

  template <Index steps>
  __attribute__((always_inline)) void operator()(Static<steps>) {
    __builtin_prefetch(place, 0, 2);
    place += step;
  }
};
template <class S, class Step>
FetchAhead(const S*, Step) -> FetchAhead<S, Step>;

/// One place for each step.
template <class S, class Step>
struct FetchEachStep {
  const S* place;
  Step step;

  template <Index steps>
  __attribute__((always_inline)) void operator()(Static<steps>) {
    SIMPLX_UNROLL
    for (Index i = 0; i < steps; ++i) __builtin_prefetch(place + i * step, 0, 2);
    place += steps * step;
  }
};
template <class S, class Step>
FetchEachStep(const S*, Step) -> FetchEachStep<S, Step>;

// Steps of the inner dimension in one turn of the loop. With AVX2 the 12 multiply-adds of a step take 6 cycles. Its 20
// instructions, and 5 more that count, fetch and jump, exceed the 3 a cycle that remain where another thread has half
// of the core; four steps in a turn share those 5. With AVX-512 Intel's cores gain 5 %; tiles of few sums gain nothing
// and would only compile longer.
inline constexpr int tile_steps = vector_bytes >= 32 ? 4 : 1;
inline constexpr int few_sums = vector_bytes == 64 ? 16 : 0;

/// Sums of each number that take turns: fewer than eight vectors of AVX2 would wait for the addition before. Few rows
/// are then rounded otherwise than among many, so only bytes do it: a row of floats has the same bits among any others.
template <class B>
constexpr int sums_in_turn(int sums) {
  const bool turns = std::is_same_v<B, std::int8_t> && vector_bytes == 32;
  return turns ? std::min(tile_steps, (7 + sums) / sums) : 1;
}

/// One tile: c[i, j] (=|+=) epilogue(sum_p a[i, p] b[p, j]), rows x vectors. In line, since strides that are constants
/// where it is called are part of its instructions.
template <int rows, int vectors, Write mode, class W, class B, class S, class Epilogue, class Fetch = NoFetch>
__attribute__((always_inline)) inline void tile(Index inner, const W* a, Index a_row, Index a_col, const B* b,
                                                Index b_row, S* c, Index c_row, const Epilogue& epilogue, Index row,
                                                Index col, Fetch fetch = {}) {
  using V = Vec<S>;
  using Words = Vec<W>;
  constexpr int L = lanes<S>;
  constexpr int in_turn = sums_in_turn<B>(rows * vectors);
  V all_sums[in_turn][rows][vectors];
  SIMPLX_UNROLL
  for (int i = 0; i < rows; ++i) {
    SIMPLX_UNROLL
    for (int j = 0; j < vectors; ++j) {
      SIMPLX_UNROLL
      for (int t = 0; t < in_turn; ++t) all_sums[t][i][j] = V{};
    }
  }
  const auto step = [&](auto ahead) __attribute__((always_inline)) {
    auto& sums = all_sums[ahead % in_turn];
    Words right[vectors];
    SIMPLX_UNROLL
    for (int j = 0; j < vectors; ++j) {
      right[j] = load_words<Words>(b + ahead * b_row + j * L);
      if constexpr (rows > 1 && rows < tile_rows) detail::in_register(right[j]);  // g++ reads it again for each row
    }
    SIMPLX_UNROLL
    for (int i = 0; i < rows; ++i) {
      const Words left = splat<Words>(load<W>(a + i * a_row + ahead * a_col));
      SIMPLX_UNROLL
      for (int j = 0; j < vectors; ++j) sums[i][j] = multiply_add(sums[i][j], left, right[j]);
    }
  };
  const auto turn = [&]<int... ahead>(std::integer_sequence<int, ahead...>) __attribute__((always_inline)) {
    constexpr Index steps = sizeof...(ahead);
    fetch(Static<steps>{});
    (step(Static<ahead>{}), ...);
    a += steps * a_col;
    b += steps * b_row;
  };
  // The next tile of c is fetched meanwhile: with AVX-512 a line in each turn, since all at once would keep b waiting.
  Index line = 0;
  const auto fetch_line = [&] {
    if (vector_bytes == 64 && line < rows * vectors) {
      __builtin_prefetch(c + (rows + line / vectors) * c_row + line % vectors * L, 1);
      ++line;
    }
  };
  if constexpr (vector_bytes < 64 && mode == Write::accumulate) {
    SIMPLX_UNROLL
    for (int i = 0; i < rows; ++i) __builtin_prefetch(c + (rows + i) * c_row, 1);
  }
  Index p = 0;
  constexpr int steps = rows * vectors < few_sums ? 1 : tile_steps;
  if constexpr (steps > 1) {
    SIMPLX_ROLLED
    for (; p + steps <= inner; p += steps) {
      fetch_line();
      turn(std::make_integer_sequence<int, steps>{});
    }
  }
  SIMPLX_ROLLED
  for (; p < inner; ++p) turn(std::integer_sequence<int, 0>{});
  SIMPLX_UNROLL
  for (int i = 0; i < rows; ++i) {
    SIMPLX_UNROLL
    for (int j = 0; j < vectors; ++j) {
      V sum = all_sums[0][i][j];
      SIMPLX_UNROLL
      for (int t = 1; t < in_turn; ++t) sum += all_sums[t][i][j];
      V value = epilogue.template at<V>(sum, row + i, col + j * L);
      S* place = c + i * c_row + j * L;
      if constexpr (mode == Write::accumulate) value += load<V>(place);
      store(place, value);
    }
  }
}

/// What is left below the last full tile: 8 and 4 rows if there are as many, and then 3, 2 or 1.
template <int rows, int vectors, Write mode, class W, class B, class S>
__attribute__((always_inline)) inline void row_tail(Index left, Index inner, const W* a, Index a_row, Index a_col,
                                                    const B* b, Index b_row, S* c, Index c_row) {
  if constexpr (rows > 0) {
    if (left >= rows) {
      tile<rows, vectors, mode>(inner, a, a_row, a_col, b, b_row, c, c_row, NoEpilogue{}, 0, 0);
      a += rows * a_row;
      c += rows * c_row;
      left -= rows;
    }
    row_tail<(rows > 4 ? 4 : rows - 1), vectors, mode>(left, inner, a, a_row, a_col, b, b_row, c, c_row);
  }
}

/// Sums without their epilogue, so that one function does for products of all sizes and epilogues: each of them would
/// have to compile all these tiles again.
template <int rows, int vectors, Write mode, class W, class B, class S>
__attribute__((noinline)) void rows_left(Index left, Index inner, const W* a, Index a_row, Index a_col, const B* b,
                                         Index b_row, S* c, Index c_row) {
  row_tail<rows, vectors, mode>(left, inner, a, a_row, a_col, b, b_row, c, c_row);
}

constexpr int half_below(int rows) { return rows > 8 ? 8 : rows > 4 ? 4 : rows > 2 ? 2 : 1; }

/// All rows of one panel of columns: c (rows, vectors * lanes) at `col`; fetch(i) is what the tile of row i fetches.
template <int rows_per_tile, int vectors, Write mode, class W, class B, class S, class Epilogue, class FetchOf>
__attribute__((always_inline)) inline void panel(Index rows, Index inner, const W* a, Index a_row, Index a_col,
                                                 const B* b, Index b_row, S* c, Index c_row, const Epilogue& epilogue,
                                                 Index col, const FetchOf& fetch) {
  Index i = 0;
  SIMPLX_ROLLED
  for (; i + rows_per_tile <= rows; i += rows_per_tile) {
    tile<rows_per_tile, vectors, mode>(inner, a + i * a_row, a_row, a_col, b, b_row, c + i * c_row, c_row, epilogue, i,
                                       col, fetch(i));
  }
  if (i == rows) return;
  constexpr int half = half_below(rows_per_tile);
  if constexpr (std::is_same_v<Epilogue, NoEpilogue>) {
    rows_left<half, vectors, mode>(rows - i, inner, a + i * a_row, a_row, a_col, b, b_row, c + i * c_row, c_row);
  } else {
    static_assert(mode == Write::store);
    constexpr Index width = vectors * lanes<S>;
    alignas(64) S sums[(rows_per_tile - 1) * width];
    const int left = static_cast<int>(rows - i);  // of an Index g++ may warn, wrongly, that rows beyond 2^59 overflow
    rows_left<half, vectors, mode>(left, inner, a + i * a_row, a_row, a_col, b, b_row, sums, width);
    const S* sum = sums;
    SIMPLX_ROLLED
    for (int k = 0; k < left; ++k, ++i) {
      for (Index j = 0; j < width; j += lanes<S>, sum += lanes<S>) {
        store(c + i * c_row + j, epilogue.template at<Vec<S>>(load<Vec<S>>(sum), i, col + j));
      }
    }
  }
}
template <int rows_per_tile, int vectors, Write mode, class W, class B, class S, class Epilogue>
__attribute__((always_inline)) inline void panel(Index rows, Index inner, const W* a, Index a_row, Index a_col,
                                                 const B* b, Index b_row, S* c, Index c_row, const Epilogue& epilogue,
                                                 Index col) {
  panel<rows_per_tile, vectors, mode>(rows, inner, a, a_row, a_col, b, b_row, c, c_row, epilogue, col,
                                      [](Index) { return NoFetch{}; });
}

/// c (rows, width) (=|+=) epilogue(a * b), `width` less than a vector: b is padded to one, and what the tiles give
/// beyond is not stored.
template <Index width, Write mode, class W, class B, class S, class ARow, class ACol, class CRow, class Epilogue>
void last_panel(Index rows, Index inner, const W* a, ARow a_row, ACol a_col, const B* b, S* c, CRow c_row,
                const Epilogue& epilogue, Index col) {
  constexpr Index L = lanes<S>, together = 8;
  for (Index begin = 0; begin < rows; begin += together) {
    const Index count = std::min(together, rows - begin);
    S block[together * L];
    panel<together, 1, Write::store>(count, inner, a + begin * a_row, a_row, a_col, b, Static<L>{}, block, Static<L>{},
                                     NoEpilogue{}, 0);
    for (Index i = 0; i < count; ++i) {
      each_left<S, width>(0, [&]<class V>(Index j) __attribute__((always_inline)) {
        Register<V> value = epilogue.template at<V>(load<V>(block + i * L + j), begin + i, col + j);
        S* place = c + (begin + i) * c_row + j;
        if constexpr (mode == Write::accumulate) value += load<V>(place);
        store<V>(place, value);
      });
    }
  }
}

/// The epilogue of the last of several sums: after it, what c (., N) holds already is part of the accumulator.
template <Index N, class S, class Epilogue>
struct Completing {
  const S* c;
  const Epilogue& epilogue;

  template <class V>
  __attribute__((always_inline)) Register<V> at(Register<V> accumulator, Index row, Index col) const {
    return epilogue.template at<V>(accumulator + load<V>(c + row * N + col), row, col);
  }
};

/// What the `inner` numbers of the inner dimension from `from` on give of a product (gemm), in columns [begin, end):
/// from a wide panel on, up to another or the end.
template <Index K, Index N, Write mode, class Inner, class Begin, class End, class W, class B, class S, class Epilogue>
__attribute__((noinline)) void gemm_block(Index rows, Index from, Inner inner, Begin begin, End end, const W* a,
                                          const B* packed, S* c, const Epilogue& epilogue) {
  constexpr Index wide = panel_width<S>, whole = N / wide * wide, vectors = whole_vectors<N, S>;
  const auto panel_at = [&](Index col, Index width) { return packed + col * K + from * width; };
  a += from;
  // Of the next panel, for each turn of this one.
  const Index share = wide * tile_rows * tile_steps / std::max<Index>(rows, 1) + 1;
  for (Index col = begin; col < std::min<Index>(end, whole); col += wide) {
    const B* next = panel_at(col + wide, wide);
    panel<tile_rows, tile_vectors, mode>(
        rows, inner, a, Static<K>{}, Static<1>{}, panel_at(col, wide), Static<wide>{}, c + col, Static<N>{}, epilogue,
        col, [&](Index i) { return FetchAhead{next + i / tile_rows * (inner / tile_steps) * share, share}; });
  }
  if (end < N) return;
  if constexpr (whole < vectors) {
    for (Index col = whole; col < vectors; col += lanes<S>) {
      panel<8, 1, mode>(rows, inner, a, Static<K>{}, Static<1>{}, panel_at(col, lanes<S>), Static<lanes<S>>{}, c + col,
                        Static<N>{}, epilogue, col);
    }
  }
  if constexpr (vectors < N) {
    last_panel<N - vectors, mode>(rows, inner, a, Static<K>{}, Static<1>{}, panel_at(vectors, lanes<S>), c + vectors,
                                  Static<N>{}, epilogue, vectors);
  }
}

/// Bytes of a panel that are multiplied at once: tile after tile reads all of them and the rows of a beside them, which
/// must stay in the second level of the cache.
inline constexpr Index panel_bytes = 256 << 10;

/// The columns [begin, end) of gemm.
template <Index K, Index N, Write mode, class Begin, class End, class W, class B, class S, class Epilogue>
__attribute__((always_inline)) inline void gemm_columns(Index rows, Begin begin, End end, const W* a, const B* packed,
                                                        S* c, const Epilogue& epilogue) {
  constexpr Index together = panel_bytes / (panel_width<S> * sizeof(B)), blocks = (K + together - 1) / together;
  const auto block = [&]<Write block_mode>(std::integral_constant<Write, block_mode>, Index i, const auto& last) {
    const Index from = K * i / blocks, to = K * (i + 1) / blocks;
    gemm_block<K, N, block_mode>(rows, from, to - from, begin, end, a, packed, c, last);
  };
  if constexpr (blocks == 1) {
    gemm_block<K, N, mode>(rows, 0, Static<K>{}, begin, end, a, packed, c, epilogue);
  } else {
    constexpr std::integral_constant<Write, Write::store> store{};
    constexpr std::integral_constant<Write, Write::accumulate> accumulate{};
    constexpr bool completed = !std::is_same_v<Epilogue, NoEpilogue>;
    block(std::integral_constant<Write, mode>{}, 0, NoEpilogue{});
    for (Index i = 1; i < blocks - completed; ++i) block(accumulate, i, NoEpilogue{});
    if constexpr (completed) block(store, blocks - 1, Completing<N, S, Epilogue>{c, epilogue});
  }
}

/// c (rows, N) (=|+=) epilogue(a (rows, K) * b), b packed by pack<K, N> or pack_transposed<K, N>. The words of a and
/// b are numbers of c's type, or pairs (bfloat16.hpp); those of b may be bytes (int8.hpp). Where c is added to there is
/// no epilogue. A team's threads take columns each: every number is the same sum for any of them.
///
/// Cost    2 rows K N FLOPs; c is read and written once more for every panel_bytes of a panel but the first
template <Index K, Index N, Write mode, class W, class B, class S, class Epilogue, class Threads = std::nullptr_t>
void gemm(Index rows, const W* a, const B* packed, S* c, const Epilogue& epilogue, Threads team = nullptr) {
  static_assert(mode == Write::store || std::is_same_v<Epilogue, NoEpilogue>);
  constexpr Index wide = panel_width<S>, panels = N / wide;
  if constexpr (panels < 2 || std::is_null_pointer_v<Threads>) {
    gemm_columns<K, N, mode>(rows, Static<0>{}, Static<N>{}, a, packed, c, epilogue);
  } else {
    divide(team, panels, rows * K * N, [&](Index first, Index last) {
      gemm_columns<K, N, mode>(rows, first * wide, last == panels ? N : last * wide, a, packed, c, epilogue);
    });
  }
}

/// A function of its own: amid others g++ runs out of registers for the tile.
template <int rows_per_tile, int vectors, Write mode, class S, class ARow, class ACol, class BRow, class CRow>
__attribute__((noinline)) void strided_panel(Index rows, Index inner, const S* a, ARow a_row, ACol a_col, const S* b,
                                             BRow b_row, S* c, CRow c_row) {
  panel<rows_per_tile, vectors, mode>(rows, inner, a, a_row, a_col, b, b_row, c, c_row, NoEpilogue{}, 0);
}

/// c (rows, N) (=|+=) a (rows, inner) * b (inner, N) with any strides; rows and inner are known at run time.
template <Index N, Write mode, class S, class ARow, class ACol, class BRow, class CRow>
void gemm_strided(Index rows, Index inner, const S* a, ARow a_row, ACol a_col, const S* b, BRow b_row, S* c,
                  CRow c_row) {
  static_assert(N % lanes<S> == 0, "simplx: the fast product needs a width that is a multiple of the vector, lanes<S>");
  constexpr int L = lanes<S>;
  constexpr Index pairs = N / (2 * L) * (2 * L);
  constexpr int rows_of_two = vector_bytes == 64 ? 8 : 6;  // 8 x 2 accumulators spill the 16 registers of AVX2
  for (Index col = 0; col < pairs; col += 2 * L) {
    strided_panel<rows_of_two, 2, mode>(rows, inner, a, a_row, a_col, b + col, b_row, c + col, c_row);
  }
  if constexpr (pairs < N) {
    strided_panel<8, 1, mode>(rows, inner, a, a_row, a_col, b + pairs, b_row, c + pairs, c_row);
  }
}

}  // namespace simplx::cpu
