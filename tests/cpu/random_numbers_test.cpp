// SPDX-License-Identifier: MIT
#include <simplx/cpu/random_numbers.hpp>

#include <doctest/doctest.h>

#include <vector>

using namespace simplx;
using namespace simplx::cpu;

TEST_SUITE_BEGIN("cpu/random_numbers");

TEST_CASE("numbers are those of every release: pinned values") {
  CHECK(normal(key_of(1, "embedding.weight"), 0) == doctest::Approx(-0.37763595747809464).epsilon(1e-14));
}

TEST_CASE_TEMPLATE("numbers by vectors are those one by one, bit for bit, and no more than are asked for", Number,
                   std::integral_constant<bool, false>, std::integral_constant<bool, true>) {
  const auto key = key_of(2, "lanes");
  for (const Index count : {0, 1, 7, 8, 1003}) {
    std::vector<double> values(static_cast<std::size_t>(count) + 1, 99.0);
    (Number::value ? fill_normal : fill_uniform)(key, 5, count, values.data());
    for (Index i = 0; i < count; ++i) {
      const auto counter = static_cast<std::uint64_t>(5 + i);
      REQUIRE(values[static_cast<std::size_t>(i)] == (Number::value ? normal(key, counter) : uniform(key, counter)));
    }
    CHECK(values.back() == 99.0);
  }
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
