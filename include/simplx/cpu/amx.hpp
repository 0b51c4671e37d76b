// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/amx.hpp
/// The matrix unit of Intel's CPUs (AMX), which multiplies tiles of pairs of bfloat16 and adds up in float: 16 times
/// the multiply-adds of a vector of AVX-512 in a cycle.
///
/// A tile is 16 rows of 16 words. Whether a program may use the unit is known when it runs, so that this belongs to the
/// instruction set of pairs (avx512_bf16) and asks for no flags of its own. Floats are multiplied by it where it is
/// named to the compiler (amx_bf16, pieces.hpp): weights take more room there.

#include <simplx/cpu/bfloat16.hpp>

#if defined(__AVX512BF16__) && defined(__x86_64__) && defined(__linux__) && !defined(__CUDACC__)
#define SIMPLX_AMX __attribute__((target("amx-tile,amx-bf16")))
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Rows of a tile, words in a row of it, and words of a tile.
inline constexpr Index tile_side = 16, tile_words = tile_side * tile_side;

/// What a product fetches into the second level of the cache while it multiplies: rows of two lines, `at_once` of them
/// between products of tiles. All at once would keep the tiles of the next step waiting.
struct FetchRows {
  const void* place = nullptr;
  Index row_bytes = 0, rows = 0, at_once = 0;

  __attribute__((always_inline)) void operator()() {
    for (Index i = 0; i < at_once && rows > 0; ++i, --rows) {
      __builtin_prefetch(place, 0, 2);
      __builtin_prefetch(static_cast<const char*>(place) + 64, 0, 2);
      place = static_cast<const char*>(place) + row_bytes;
    }
  }
};

#if defined(SIMPLX_AMX)

/// The unit, ready for whole tiles for as long as this object lives.
///
/// Cost    some 100 cycles
class Amx {
 public:
  static constexpr bool compiled = true;

  /// Whether this CPU has the unit and the system lets the process use it; asks for that.
  static bool available() {
    static const bool permitted = [] {
      unsigned a, b, c, d;
      constexpr unsigned tiles_of_bfloat16 = 1u << 22 | 1u << 24;
      if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & tiles_of_bfloat16) != tiles_of_bfloat16) return false;
      constexpr int request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA of Linux
      return syscall(SYS_arch_prctl, request, tile_data) == 0;
    }();
    return permitted;
  }

  SIMPLX_AMX Amx() {
    alignas(64) static constexpr Configuration whole = [] {
      Configuration tiles;
      for (int i = 0; i < 8; ++i) tiles.bytes[i] = 64, tiles.rows[i] = tile_side;
      return tiles;
    }();
    _tile_loadconfig(&whole);
  }
  SIMPLX_AMX ~Amx() { _tile_release(); }
  Amx(const Amx&) = delete;
  Amx& operator=(const Amx&) = delete;

  /// c (=|+=) left * right, of rows x cols tiles, 1 or 2 of each. `left` holds its first row of tiles step after step,
  /// then its second one; of `right` and c rows are that many numbers apart. Each number of the operands is the sum of
  /// so many bfloat16 (pieces.hpp); a step holds the tiles of the first ones, then those of the second ones, and so on.
  ///
  /// Cost    16 cycles for each product of tiles, if tiles come from the first level of the cache
  template <int pieces, int rows, int cols, Write mode>
  SIMPLX_AMX __attribute__((noinline)) void multiply(Index steps, const Twin* left, const Twin* right, Index right_row,
                                                     float* c, Index c_row, FetchRows fetch = {}) const {
    asm volatile("" ::: "memory");  // g++ does not know that tiles are loaded from memory
    constexpr bool below = rows == 2, beside = cols == 2, adds = mode == Write::accumulate;
    const Index c_bytes = c_row * Index(sizeof(float));
    const Twin* const left_below = left + steps * pieces * tile_words;
    float* const c_below = c + tile_side * c_row;
    if constexpr (adds) {
      _tile_loadd(0, c, c_bytes);
      if constexpr (beside) _tile_loadd(1, c + tile_side, c_bytes);
      if constexpr (below) _tile_loadd(2, c_below, c_bytes);
      if constexpr (below && beside) _tile_loadd(3, c_below + tile_side, c_bytes);
    } else {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    }
    for (Index step = 0; step < steps; ++step) {
      const Index at = step * pieces * tile_words;
      const Twin* const words = right + step * pieces * tile_side * right_row;
      if constexpr (pieces == 1) {
        load_right<cols>(words, right_row);
        load_left<rows>(left + at, left_below + at);
        add_products<rows, cols>();
      } else {  // what is smallest first; each line differs in one operand from the one before
        const auto left_piece = [&](int i) { return at + i * tile_words; };
        const auto right_piece = [&](int i) { return words + i * tile_side * right_row; };
        load_right<cols>(right_piece(0), right_row);
        load_left<rows>(left + left_piece(2), left_below + left_piece(2));
        fetch();
        add_products<rows, cols>();
        load_left<rows>(left + left_piece(1), left_below + left_piece(1));
        fetch();
        add_products<rows, cols>();
        load_left<rows>(left + left_piece(0), left_below + left_piece(0));
        fetch();
        add_products<rows, cols>();
        load_right<cols>(right_piece(2), right_row);
        fetch();
        add_products<rows, cols>();
        load_right<cols>(right_piece(1), right_row);
        fetch();
        add_products<rows, cols>();
        load_left<rows>(left + left_piece(1), left_below + left_piece(1));
        fetch();
        add_products<rows, cols>();
      }
    }
    _tile_stored(0, c, c_bytes);
    if constexpr (beside) _tile_stored(1, c + tile_side, c_bytes);
    if constexpr (below) _tile_stored(2, c_below, c_bytes);
    if constexpr (below && beside) _tile_stored(3, c_below + tile_side, c_bytes);
  }

 private:
  template <int rows>
  SIMPLX_AMX __attribute__((always_inline)) static void load_left(const Twin* tile, const Twin* below) {
    _tile_loadd(4, tile, tile_side * Index(sizeof(Twin)));
    if constexpr (rows == 2) _tile_loadd(5, below, tile_side * Index(sizeof(Twin)));
  }
  template <int cols>
  SIMPLX_AMX __attribute__((always_inline)) static void load_right(const Twin* tile, Index row) {
    _tile_loadd(6, tile, row * Index(sizeof(Twin)));
    if constexpr (cols == 2) _tile_loadd(7, tile + tile_side, row * Index(sizeof(Twin)));
  }
  template <int rows, int cols>
  SIMPLX_AMX __attribute__((always_inline)) static void add_products() {
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (rows == 2) _tile_dpbf16ps(2, 5, 6);
    if constexpr (cols == 2) _tile_dpbf16ps(1, 4, 7);
    if constexpr (rows == 2 && cols == 2) _tile_dpbf16ps(3, 5, 7);
  }

  struct Configuration {
    std::uint8_t palette = 1, start_row = 0, reserved[14]{};
    std::uint16_t bytes[16]{};
    std::uint8_t rows[16]{};
  };
};

#else

/// There is none for what this is compiled for.
class Amx {
 public:
  static constexpr bool compiled = false;
  static constexpr bool available() { return false; }
};

#endif

}  // namespace simplx::cpu
