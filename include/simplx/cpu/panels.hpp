// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/panels.hpp
/// Matrices in the order in which products read them: panel after panel, each as wide as a tile of accumulators.

#include <simplx/cpu/simd.hpp>
#include <simplx/cpu/transpose.hpp>

#include <cstdint>
#include <type_traits>

namespace simplx::inline SIMPLX_TARGET::cpu {

/// A stride or size that the compiler knows.
template <Index value>
using Static = std::integral_constant<Index, value>;

// 6 x 4 vectors fill 24 of the 32 registers of AVX-512; 6 x 2 fit the 16 of AVX2 and SSE.
inline constexpr int tile_rows = 6;
inline constexpr int tile_vectors = vector_bytes == 64 ? 4 : 2;

template <class S>
inline constexpr Index panel_width = tile_vectors * lanes<S>;

/// Elements of a packed (K, N) matrix.
template <Index K, Index N, class S>
inline constexpr Index packed_size = K * round_up(N, lanes<S>);

/// The columns of N that are in whole vectors.
template <Index N, class S>
inline constexpr Index whole_vectors = N / lanes<S> * lanes<S>;

/// Calls f(Static<width>, col) for every panel of N columns: wide ones, and narrow ones at the end.
template <Index N, class S, class F>
__attribute__((always_inline)) inline void each_panel(const F& f) {
  static_assert(N % lanes<S> == 0, "simplx: the width of a packed matrix must be a multiple of the vector, lanes<S>");
  constexpr Index wide = panel_width<S>, whole = N / wide * wide;
  for (Index col = 0; col < whole; col += wide) f(Static<wide>{}, col);
  for (Index col = whole; col < N; col += lanes<S>) f(Static<lanes<S>>{}, col);
}

/// How numbers are written: into the caches, or past them.
struct Storing {
  template <class V, class S>
  __attribute__((always_inline)) void operator()(S* place, V value) const {
    store(place, value);
  }
};
struct Streaming {
  template <class V, class S>
  __attribute__((always_inline)) void operator()(S* place, V value) const {
    stream(place, value);
  }
};

/// Calls f(how) with the way to write a packed matrix of so many numbers: one that fills the second level of the cache
/// is gone from there before it is read.
template <Index size, class S, class F>
void written(const S* packed, const F& f) {
  if constexpr (size * sizeof(S) >= Index(1) << 20) {
    if (reinterpret_cast<std::uintptr_t>(packed) % vector_bytes == 0) {
      f(Streaming{});
      return end_stream();
    }
  }
  f(Storing{});
}

// Panels of any depth K share these loops: compilers would unroll each depth for itself.

/// `count` panels side by side, row by row of the matrix, which is how memory is read fastest.
template <Index width, class S, class Writing>
__attribute__((noinline)) void pack_panels(Index K, Index count, const S* matrix, Index stride, S* packed,
                                           Writing write) {
  for (Index p = 0; p < K; ++p) {
    for (Index panel = 0; panel < count; ++panel) {
      SIMPLX_UNROLL
      for (Index j = 0; j < width; j += lanes<S>) {  // memcpy takes half a vector at a time
        write(packed + (panel * K + p) * width + j, load<Vec<S>>(matrix + p * stride + panel * width + j));
      }
    }
  }
}
template <Index width, class S>
void pack_panel(Index K, const S* matrix, Index stride, S* packed) {
  pack_panels<width>(K, 1, matrix, stride, packed, Storing{});
}
/// Fewer columns than a vector has lanes, and zeros after them.
template <Index width, class S>
__attribute__((noinline)) void pack_last_panel(Index K, const S* matrix, Index stride, S* packed) {
  for (Index p = 0; p < K; ++p) {
    S row[lanes<S>]{};
    std::memcpy(row, matrix + p * stride, width * sizeof(S));
    std::memcpy(packed + p * lanes<S>, row, sizeof row);
  }
}
/// The transpose of `width` rows of K words in squares of vectors; words(row, p) are a vector of words from word p of a
/// row on. Returns how many words of the rows that are: what is left of K are less than a vector.
template <Index width, class W, class Words, class Writing>
__attribute__((always_inline)) inline Index transpose_squares(Index K, const Words& words, W* packed, Writing write) {
  constexpr Index L = lanes<W>;
  const Index whole = K / L * L;
  for (Index p = 0; p < whole; p += L) {
    for (Index q = 0; q < width; q += L) {
      Vec<W> square[L];
      SIMPLX_UNROLL
      for (int i = 0; i < L; ++i) square[i] = words(q + i, p);
      transpose_vectors<W>(square);
      SIMPLX_UNROLL
      for (int i = 0; i < L; ++i) write(packed + (p + i) * width + q, square[i]);
    }
  }
  return whole;
}
/// How far ahead of what is transposed numbers are fetched: rows are too many for the hardware to do it.
template <class S>
inline constexpr Index transposed_ahead = 256 / sizeof(S);

template <Index width, class S, class Writing>
__attribute__((noinline)) void pack_transposed_panel(Index K, const S* matrix, S* packed, Writing write) {
  const auto words = [&](Index row, Index p) __attribute__((always_inline)) {
    const S* place = matrix + row * K + p;
    __builtin_prefetch(place + transposed_ahead<S>, 0, 2);
    return load<Vec<S>>(place);
  };
  for (Index p = transpose_squares<width>(K, words, packed, write); p < K; ++p) {
    for (Index q = 0; q < width; ++q) packed[p * width + q] = matrix[q * K + p];
  }
}

/// Packs a (K, N) matrix into panels: panel after panel, each (K, panel_width); narrow panels at the end, the last one
/// with zeros where N is no multiple of the vector. `read_next`: for the product that follows, so that the caches get
/// it whatever its size.
///
/// Cost    one pass
template <Index K, Index N, bool read_next = false, class S>
void pack(const S* matrix, S* packed) {
  constexpr Index wide = panel_width<S>, wide_ones = N / wide, whole = whole_vectors<N, S>;
  written<read_next ? 0 : K * N>(packed, [&](auto write) {
    pack_panels<wide>(K, wide_ones, matrix, N, packed, write);
  });
  for (Index col = wide_ones * wide; col < whole; col += lanes<S>) {
    pack_panel<lanes<S>>(K, matrix + col, N, packed + col * K);
  }
  if constexpr (whole < N) pack_last_panel<N - whole>(K, matrix + whole, N, packed + whole * K);
}

/// Packs the transpose (K, N) of an (N, K) matrix.
///
/// Cost    one pass
template <Index K, Index N, bool read_next = false, class S>
void pack_transposed(const S* matrix, S* packed) {
  constexpr Index whole = whole_vectors<N, S>;
  written<read_next ? 0 : K * N>(packed, [&](auto write) {
    each_panel<whole, S>([&]<Index width>(Static<width>, Index col) {
      pack_transposed_panel<width>(K, matrix + col * K, packed + col * K, write);
    });
  });
  if constexpr (whole < N) {
    constexpr Index left = N - whole;
    for (Index p = 0; p < K; ++p) {
      S* const row = packed + whole * K + p * lanes<S>;
      for (Index q = 0; q < lanes<S>; ++q) row[q] = q < left ? matrix[(whole + q) * K + p] : S(0);
    }
  }
}

}  // namespace simplx::cpu
