// SPDX-License-Identifier: MIT
#include <simplx/cpu/piece_tiles.hpp>

#include <cpu/emulated_unit.hpp>
#include <cpu/triple_loop.hpp>
#include <doctest/doctest.h>

#include <vector>

using namespace simplx;
using namespace simplx::cpu;

namespace {

/// Numbers with three pieces, of many sizes, none at the same place alike.
std::vector<float> matrix(Index rows, Index columns) {
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = (1 + static_cast<float>(i) / 65536) * (i % 3 ? 1.001f : -0.03f);
  }
  return values;
}

/// Number `inner` of a row of words: the sum of its pieces, `apart` words from one to the next.
double number(const Twin* words, Index inner, Index word_stride, Index apart) {
  double total = 0;
  for (int piece = 0; piece < float_pieces; ++piece) {
    const Twin pair = words[piece * apart + inner / 2 * word_stride];
    total += static_cast<double>(inner % 2 ? test::second_of(pair) : test::first_of(pair));
  }
  return total;
}
double left_number(const std::vector<Twin>& tiles, Index depth, Index row, Index k) {
  const Index steps = depth / step_depth, tile = (row / tile_side * steps + k / step_depth) * float_pieces;
  return number(tiles.data() + tile * tile_words + row % tile_side * tile_side, k % step_depth, 1, tile_words);
}
double right_number(const std::vector<Twin>& strips, Index depth, Index k, Index col) {
  const Index step = words_in_pieces(col / strip_columns * strip_columns * depth) + k / step_depth * 3 * 16 * 32;
  return number(strips.data() + step + col % strip_columns, k % step_depth, strip_columns, 16 * 32);
}

std::vector<Twin> words(Index numbers) { return std::vector<Twin>(static_cast<std::size_t>(words_in_pieces(numbers)) + 1, 77); }

}  // namespace

TEST_SUITE("cpu/piece_tiles") {
  TEST_CASE("left operands: rows in tiles, those that are not taken and those that are missing are zeros") {
    constexpr Index depth = 96, stride = 100;
    for (const Index rows : {1, 15, 16, 33}) {
      const auto a = matrix(rows, stride);
      auto tiles = words(round_up(rows, tile_side) * depth);
      pack_left_pieces(rows, depth, a.data(), stride, [](Index row, Extent extent) { return row != 3 && extent.splits; },
                       tiles.data());
      for (Index row = 0; row < round_up(rows, tile_side); ++row) {
        for (Index k = 0; k < depth; ++k) {
          const bool there = row < rows && row != 3;
          REQUIRE(left_number(tiles, depth, row, k) == (there ? a[static_cast<std::size_t>(row * stride + k)] : 0));
        }
      }
      CHECK(tiles.back() == 77);
    }
  }
  TEST_CASE("transposed left operands") {
    constexpr Index columns = 48, stride = 50;
    for (const Index rows : {1, 31, 32, 47, 65}) {
      const Index depth = round_up(rows, step_depth);
      auto x = matrix(rows, stride);
      auto tiles = words(depth * columns);
      CHECK(pack_transposed_left_pieces(rows, columns, x.data(), stride, tiles.data()).smallest == -6);
      for (Index col = 0; col < columns; ++col) {
        for (Index row = 0; row < depth; ++row) {
          const auto at = static_cast<std::size_t>(row * stride + col);
          REQUIRE(left_number(tiles, depth, col, row) == (row < rows ? x[at] : 0));
        }
      }
      CHECK(tiles.back() == 77);
      x[static_cast<std::size_t>((rows - 1) * stride + columns - 1)] = 1e-40f;
      CHECK_FALSE(pack_transposed_left_pieces(rows, columns, x.data(), stride, tiles.data()).splits);
    }
  }
  TEST_CASE("right operands, as they are and transposed") {
    constexpr Index columns = 96, stride = 100;
    for (const Index rows : {1, 31, 32, 47, 64}) {
      const Index depth = round_up(rows, step_depth);
      auto x = matrix(rows, stride);
      auto strips = words(depth * columns);
      CHECK(pack_right_pieces(rows, columns, x.data(), stride, strips.data()).smallest == -6);
      for (Index k = 0; k < depth; ++k) {
        for (Index col = 0; col < columns; ++col) {
          REQUIRE(right_number(strips, depth, k, col) == (k < rows ? x[static_cast<std::size_t>(k * stride + col)] : 0));
        }
      }
      CHECK(strips.back() == 77);
      x[static_cast<std::size_t>((rows - 1) * stride + columns - 1)] = INFINITY;
      CHECK_FALSE(pack_right_pieces(rows, columns, x.data(), stride, strips.data()).splits);
    }
    constexpr Index depth = 64;
    auto w = matrix(columns, depth);
    auto strips = words(depth * columns);
    CHECK(pack_transposed_right_pieces(depth, columns, w.data(), strips.data()).smallest == -6);
    for (Index k = 0; k < depth; ++k) {
      for (Index col = 0; col < columns; ++col) {
        REQUIRE(right_number(strips, depth, k, col) == w[static_cast<std::size_t>(col * depth + k)]);
      }
    }
    CHECK(strips.back() == 77);
    w.back() = NAN;
    CHECK_FALSE(pack_transposed_right_pieces(depth, columns, w.data(), strips.data()).splits);
  }
}
