// SPDX-License-Identifier: MIT
#include <simplx/core/random.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>

using namespace simplx;

TEST_SUITE_BEGIN("core/random");

TEST_CASE("numbers are those of every release: pinned values") {
  static_assert(key_of(1, "embedding.weight") != key_of(2, "embedding.weight"));
  CHECK(key_of(0, "") == 7628334143679044616ull);
  CHECK(bits(key_of(1, "blocks.0.mlp.up.weight"), 5) == 17529954491916896220ull);
}

TEST_CASE("uniform numbers fill (0, 1) evenly and never touch its ends") {
  const auto key = key_of(3, "uniform");
  int count[10]{};
  for (int i = 0; i < 20000; ++i) {
    const double u = uniform(key, static_cast<std::uint64_t>(i));
    REQUIRE(u > 0);
    REQUIRE(u < 1);
    ++count[static_cast<int>(u * 10)];
  }
  for (const int c : count) CHECK(std::abs(c - 2000) < 200);  // standard deviation 42
}

TEST_CASE("words of rows: even, each bit half of the time, and independent along rows, down columns and across keys") {
  constexpr int rows = 64, cols = 512;
  const auto word = [](std::uint64_t key, int row, int col) {
    const detail::RowKey of = detail::row_key(key, static_cast<std::uint32_t>(row));
    return detail::row_word(of.first, of.second, static_cast<std::uint32_t>(col));
  };
  CHECK(word(5, 3, 7) == 2128813327u);  // pinned
  const std::uint64_t key = key_of(3, "words");
  int set[32]{}, sixteenth[16]{}, along = 0, down = 0, diagonal = 0, other = 0, high = 0, low = 0;
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < cols; ++j) {
      const std::uint32_t w = word(key, i, j);
      for (int b = 0; b < 32; ++b) set[b] += static_cast<int>(w >> b & 1);
      ++sixteenth[w >> 28];
      along += std::popcount(w ^ word(key, i, j + 1));
      down += std::popcount(w ^ word(key, i + 1, j));
      diagonal += std::popcount(w ^ word(key, i + 1, j + 1));
      other += std::popcount(w ^ word(key_of(4, "words"), i, j));
      high += std::popcount(w ^ word(key ^ 1ull << 63, i, j)), low += std::popcount(w ^ word(key ^ 1, i, j));
    }
  }
  constexpr int n = rows * cols;
  for (const int count : set) CHECK(std::abs(count - n / 2) < 5 * 91);  // deviations of sqrt(n) / 2
  for (const int count : sixteenth) CHECK(std::abs(count - n / 16) < 5 * 44);
  for (const int bits : {along, down, diagonal, other, high, low}) CHECK(std::abs(bits - 16 * n) < 5 * 512);
}

TEST_CASE("words of rows do not repeat, moved by some columns, where first keys are as many columns apart") {
  const std::uint32_t first = 12345, moved = first + 3 * 0x9e3779b9u;
  CHECK(detail::row_word(first, 1u, 3u) == detail::row_word(moved, 1u, 0u));
  CHECK(detail::row_word(first, 1u, 3u) != detail::row_word(moved, 2u, 0u));
}

TEST_SUITE_END();
