// SPDX-License-Identifier: MIT
#include <simplx/core/random.hpp>

#include <doctest/doctest.h>

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

TEST_SUITE_END();
