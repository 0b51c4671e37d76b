// SPDX-License-Identifier: MIT
#include <simplx/cpu/bfloat16.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

using namespace simplx;
using namespace simplx::cpu;

namespace {

/// The nearest number of 8 significant bits, ties to even, by arithmetic instead of bits.
float nearest(float x) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent;
  std::frexp(x, &exponent);
  const double unit = std::ldexp(1.0, exponent - 8);
  return static_cast<float>(std::nearbyint(static_cast<double>(x) / unit) * unit);
}

float low(Twin pair) { return std::bit_cast<float>(static_cast<std::uint32_t>(pair) << 16); }
float high(Twin pair) { return std::bit_cast<float>(static_cast<std::uint32_t>(pair) & 0xffff0000u); }

std::vector<float> numbers(Index count) {
  std::vector<float> x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const int draw = static_cast<int>(i * 2654435761u % 65521) - 32760;
    x[i] = std::ldexp(static_cast<float>(draw) / 7, static_cast<int>(i % 19) - 9);
  }
  return x;
}

}  // namespace

TEST_SUITE("cpu/bfloat16") {
  TEST_CASE("neighbours of a row become pairs of the nearest bfloat16") {
    for (const Index count : {0, 2, 6, 30, 32, 34, 128, 190}) {
      CAPTURE(count);
      const auto x = numbers(count);
      std::vector<Twin> pairs(static_cast<std::size_t>(count / 2 + 1), 77);
      pair_columns(count, x.data(), pairs.data());
      for (std::size_t i = 0; i + 1 < x.size(); i += 2) {
        CHECK(low(pairs[i / 2]) == nearest(x[i]));
        CHECK(high(pairs[i / 2]) == nearest(x[i + 1]));
      }
      CHECK(pairs.back() == 77);
    }
  }
  TEST_CASE("a number and the one below it become a pair; below the last row are zeros") {
    constexpr Index width = 4 * lanes<float>;
    const auto x = numbers(2 * width);
    std::vector<Twin> pairs(width);
    pair_rows(width, x.data(), x.data() + width, pairs.data());
    for (std::size_t i = 0; i < width; ++i) {
      CHECK(low(pairs[i]) == nearest(x[i]));
      CHECK(high(pairs[i]) == nearest(x[i + width]));
    }
    pair_rows(width, x.data(), nullptr, pairs.data());
    for (std::size_t i = 0; i < width; ++i) CHECK(high(pairs[i]) == 0);
  }
  TEST_CASE("ties go to even, what is no number stays so, and the largest numbers become infinite") {
    const float nan = std::numeric_limits<float>::quiet_NaN(), infinite = std::numeric_limits<float>::infinity();
    float x[2 * lanes<float>] = {1 + 1.0f / 256, 1 + 3.0f / 256};
    x[2] = nan, x[3] = -infinite;
    Twin pairs[lanes<float>];
    pair_columns(2 * lanes<float>, x, pairs);
    CHECK(low(pairs[0]) == 1);
    CHECK(high(pairs[0]) == 1 + 4.0f / 256);
    CHECK(std::isnan(low(pairs[1])));
    CHECK(high(pairs[1]) == -infinite);
    x[0] = std::numeric_limits<float>::max();
    pair_columns(2 * lanes<float>, x, pairs);
    CHECK(low(pairs[0]) == infinite);
  }
  TEST_CASE("both products are added, in float") {
    const auto x = numbers(2 * lanes<float>);
    const std::vector<float> turned(x.rbegin(), x.rend());
    std::vector<Twin> left(lanes<float>), right(lanes<float>);
    pair_columns(2 * lanes<float>, x.data(), left.data());
    pair_columns(2 * lanes<float>, turned.data(), right.data());
    const Vec<float> sums = multiply_add(splat<Vec<float>>(0.5f), load<Vec<Twin>>(left.data()),
                                         load<Vec<Twin>>(right.data()));
    for (std::size_t i = 0; i < left.size(); ++i) {
      const double first = static_cast<double>(low(left[i])) * static_cast<double>(low(right[i]));
      const double second = static_cast<double>(high(left[i])) * static_cast<double>(high(right[i]));
      const double size = 0.5 + std::abs(first) + std::abs(second);
      CHECK(std::abs(static_cast<double>(sums[static_cast<int>(i)]) - (0.5 + first + second)) <= 3e-7 * size);
    }
  }
}
