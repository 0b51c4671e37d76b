// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/gemm_bfloat16.hpp
/// The products of gemm.hpp with operands rounded to bfloat16 and sums in float, on the matrix unit where there is one.
/// Elsewhere the tiles are those of float; a word of theirs is a pair of numbers, so that the inner dimension is half
/// as long.

#include <simplx/cpu/amx.hpp>
#include <simplx/cpu/gemm_gradient.hpp>
#include <simplx/cpu/gemm_tiles.hpp>

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Packs a (K, N) matrix of floats for gemm<K / 2, N> of pairs.
///
/// Cost    one pass
template <Index K, Index N>
void pack_pairs(const float* matrix, Twin* packed) {
  static_assert(K % 2 == 0 && N % lanes<float> == 0);
  each_panel<N, float>([&]<Index width>(Static<width>, Index col) {
    for (Index p = 0; p < K; p += 2, packed += width) {
      pair_rows(width, matrix + p * N + col, matrix + (p + 1) * N + col, packed);
    }
  });
}

template <Index width>
__attribute__((noinline)) void pack_transposed_pairs_panel(Index K, const float* matrix, Twin* packed) {
  constexpr Index L = lanes<float>;
  const auto words = [&](Index row, Index p) __attribute__((always_inline)) {
    const float* place = matrix + row * K + 2 * p;
    __builtin_prefetch(place + transposed_ahead<float>, 0, 2);
    __builtin_prefetch(place + transposed_ahead<float> + L, 0, 2);
    return pairs_along(load<Vec<float>>(place), load<Vec<float>>(place + L));
  };
  const Index whole = transpose_squares<width>(K / 2, words, packed, Storing{});
  for (Index q = 0; q < width; ++q) {
    Twin pairs[L];
    pair_columns(K - 2 * whole, matrix + q * K + 2 * whole, pairs);
    for (Index p = whole; p < K / 2; ++p) packed[p * width + q] = pairs[p - whole];
  }
}

/// Packs the transpose (K, N) of an (N, K) matrix.
///
/// Cost    one pass
template <Index K, Index N>
void pack_transposed_pairs(const float* matrix, Twin* packed) {
  static_assert(K % 2 == 0 && N % lanes<float> == 0);
  each_panel<N, float>([&]<Index width>(Static<width>, Index col) {
    pack_transposed_pairs_panel<width>(K, matrix + col * K, packed + col * (K / 2));
  });
}

/// c (rows, N) (=|+=) epilogue(a (rows, K) * b), b packed by pack_pairs<K, N> or pack_transposed_pairs<K, N>;
/// scratch holds gradient_pairs(rows, K, N). The matrix unit takes denormal numbers for zeros.
///
/// Cost    2 rows K N FLOPs, which the team's threads share, and one pass over a
template <Index K, Index N, Write mode, class Epilogue, class Threads = std::nullptr_t>
void gemm_bfloat16(Index rows, const float* a, const Twin* packed, float* c, const Epilogue& epilogue, Twin* scratch,
                   Threads team = nullptr) {
  if constexpr (Amx::compiled && fits_tiles(K)) {
    if (rows > tile_rows && Amx::available()) {  // a few rows would leave most of a tile empty
      pack_left_tiles<K>(rows, a, scratch);
      return gemm_tiles<Amx, K, N, mode>(rows, scratch, packed, c, epilogue, team);
    }
  }
  pair_columns(rows * K, a, scratch);  // K is even: no pair reaches into the next row
  gemm<K / 2, N, mode>(rows, scratch, packed, c, epilogue, team);
}

/// Pairs of scratch that the products of x (rows, K) and dy (rows, N) need.
constexpr Index gradient_pairs(Index rows, Index K, Index N) {
  const Index pairs = (rows + 1) / 2, by_tiles = round_up(pairs, tile_side) * (K + N);
  const Index by_vectors = pairs * (K + N) + gradient_scratch<float>(pairs, N);
  return Amx::compiled ? std::max(by_tiles, by_vectors) : by_vectors;
}

/// dw (K, N) += x^T dy, x (rows, K), dy (rows, N), both rounded. Turns as in gemm_gradient.
///
/// Cost    2 rows K N FLOPs, and one pass over x and dy
template <Index K, Index N>
void gemm_gradient_bfloat16(Index rows, const float* x, const float* dy, float* dw, Twin* scratch,
                            detail::Turn* turn = nullptr) {
  static_assert(K % lanes<float> == 0 && N % lanes<float> == 0);
  const Index pairs = (rows + 1) / 2;
  if constexpr (Amx::compiled) {
    if (Amx::available()) {
      Twin* const right = scratch + round_up(pairs, tile_side) * K;
      pack_transposed_left_tiles<K>(rows, x, scratch);
      pack_right_tiles<N>(rows, dy, right);
      const Amx unit;
      for (Index from = 0; from < K; from += rows_in_turn) {
        const detail::Addition addition(turn);
        gemm_gradient_tiles<K, N>(unit, rows, scratch, right, dw, from, std::min(K - from, rows_in_turn));
      }
      return;
    }
  }
  const auto pair_up = [&]<Index width>(Static<width>, const float* matrix, Twin* to) {
    for (Index row = 0; row < rows; row += 2, matrix += 2 * width, to += width) {
      pair_rows(width, matrix, row + 1 < rows ? matrix + width : nullptr, to);
    }
  };
  Twin *left = scratch, *right = left + pairs * K;
  pair_up(Static<K>{}, x, left);
  pair_up(Static<N>{}, dy, right);
  gemm_gradient<K, N>(pairs, left, right, dw, right + pairs * N, turn);
}

}  // namespace simplx::cpu
