// SPDX-License-Identifier: MIT
#include <simplx/core/random.hpp>

#include <doctest/doctest.h>

using namespace simplx;

TEST_SUITE_BEGIN("train/random");

TEST_CASE("numbers are those of every release: pinned values") {
  static_assert(key_of(1, "embedding.weight") != key_of(2, "embedding.weight"));
  CHECK(key_of(0, "") == 7628334143679044616ull);
  CHECK(bits(key_of(1, "blocks.0.mlp.up.weight"), 5) == 17529954491916896220ull);
  CHECK(normal(key_of(1, "embedding.weight"), 0) == doctest::Approx(-0.37763595747809464).epsilon(1e-14));
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

TEST_CASE("normal numbers have the moments of the normal law") {
  const auto key = key_of(3, "normal");
  double m1 = 0, m2 = 0, m4 = 0, previous = 0, correlation = 0;
  constexpr int n = 40000;
  for (int i = 0; i < n; ++i) {
    const double x = normal(key, static_cast<std::uint64_t>(i));
    m1 += x / n, m2 += x * x / n, m4 += x * x * x * x / n;
    correlation += x * previous / n;
    previous = x;
  }
  CHECK(std::abs(m1) < 0.02);
  CHECK(std::abs(m2 - 1) < 0.03);
  CHECK(std::abs(m4 - 3) < 0.25);
  CHECK(std::abs(correlation) < 0.02);
}

TEST_SUITE_END();
