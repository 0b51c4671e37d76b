// SPDX-License-Identifier: MIT
#include <simplx/cpu/pieces.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace simplx;
using namespace simplx::cpu;

namespace {

/// Numbers of all sizes that split.
std::vector<float> numbers(int smallest) {
  std::mt19937 random(1);
  std::vector<float> values(16 * 4096);
  for (float& x : values) {
    const auto bits = static_cast<std::uint32_t>(random());
    const int exponent = smallest + static_cast<int>(random() % static_cast<unsigned>(128 - smallest));
    x = std::ldexp(std::bit_cast<float>((bits & 0x807fffffu) | 127u << 23), exponent);
  }
  return values;
}

Extent extent(const std::vector<float>& values) {
  std::vector<float> padded(values);
  padded.resize(static_cast<std::size_t>(round_up(static_cast<Index>(values.size()), lanes<float>)));
  Measure measure;
  for (std::size_t i = 0; i < padded.size(); i += lanes<float>) measure(load<Vec<float>>(padded.data() + i));
  return measure.extent();
}

}  // namespace

TEST_SUITE("cpu/pieces") {
  TEST_CASE("three bfloat16 are the float, to the bit, down to 2^-103") {
    Index wrong = 0;
    const auto values = numbers(-103);
    for (std::size_t i = 0; i < values.size(); i += lanes<float>) {
      const Pieces split(load<Vec<float>>(values.data() + i));
      for (int lane = 0; lane < lanes<float>; ++lane) {
        double total = 0;
        for (const Vec<float>& piece : split.of) {
          wrong += (std::bit_cast<std::uint32_t>(float(piece[lane])) & 0xffff) != 0;
          wrong += piece[lane] != 0 && std::abs(piece[lane]) < std::numeric_limits<float>::min();
          total += static_cast<double>(piece[lane]);
        }
        wrong += total != static_cast<double>(values[i + static_cast<std::size_t>(lane)]);
      }
    }
    CHECK(wrong == 0);
  }
  TEST_CASE("products of pieces that are left out are below 2^-21 of the whole, in the mean below 2^-24") {
    const auto values = numbers(-20);
    double worst = 0, mean = 0;
    for (std::size_t i = 0; i + lanes<float> < values.size(); i += lanes<float>) {
      const Pieces a(load<Vec<float>>(values.data() + i)), b(load<Vec<float>>(values.data() + i + 1));
      for (int lane = 0; lane < lanes<float>; ++lane) {
        double kept = 0;
        for (int k = 0; k < float_pieces; ++k) {
          for (int m = 0; k + m < float_pieces; ++m) kept += static_cast<double>(a.of[k][lane]) * b.of[m][lane];
        }
        const std::size_t at = i + static_cast<std::size_t>(lane);
        const double whole = static_cast<double>(values[at]) * values[at + 1], left_out = std::abs(kept / whole - 1);
        worst = std::max(worst, left_out);
        mean += left_out / static_cast<double>(values.size());
      }
    }
    CHECK(worst < std::ldexp(1, -21));
    CHECK(mean < std::ldexp(1, -24));
    CHECK(mean > std::ldexp(1, -28));
  }
  TEST_CASE("numbers are joined in pairs, the first one below") {
    const Vec<float> first = splat<Vec<float>>(1.0f), second = splat<Vec<float>>(-2.0f);
    CHECK(join_pairs(first, second)[0] == static_cast<Twin>(0xc0003f80u));
    CHECK(join_pairs(first, second)[lanes<float> - 1] == pairs_of(first, second)[0]);
  }
  TEST_CASE("an extent is the exponent of the smallest number, and whether all split") {
    CHECK(extent({1, -0.25f, 0, 7}).smallest == -2);
    CHECK(extent({1, -0.25f, 0, 7}).splits);
    CHECK(extent({0, -0.0f}).splits);
    CHECK(extent({std::ldexp(1.0f, -103)}).splits);
    CHECK_FALSE(extent({std::ldexp(1.9f, -104)}).splits);
    CHECK_FALSE(extent({1, std::numeric_limits<float>::denorm_min()}).splits);
    CHECK(extent({std::numeric_limits<float>::max()}).splits);
    CHECK_FALSE(extent({1, INFINITY}).splits);
    CHECK_FALSE(extent({-INFINITY}).splits);
    CHECK_FALSE(extent({NAN, 2}).splits);
    const std::vector<float> row{8, 0.5f, 4};
    CHECK(extent_of<lanes<float>>(std::vector<float>(lanes<float>, 0.5f).data()).smallest == -1);
  }
  TEST_CASE("extents fit where no product is below what the unit can hold") {
    CHECK(fit({-48, true}, {-48, true}));
    CHECK_FALSE(fit({-48, true}, {-49, true}));
    CHECK_FALSE(fit({0, true}, {0, false}));
    CHECK_FALSE(fit({0, false}, {0, true}));
    CHECK(fit(extent({0}), {-90, true}));
  }
}
