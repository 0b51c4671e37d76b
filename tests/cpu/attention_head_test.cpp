// SPDX-License-Identifier: MIT
#include <simplx/cpu/attention_head.hpp>

#include <simplx/cpu/random_numbers.hpp>

#include <doctest/doctest.h>

#include <vector>

using namespace simplx;
using namespace simplx::cpu;

// Against the definitions, with gradients, it is held as a whole: cpu/attention_test.cpp.

TEST_CASE("cpu/attention_head: scores are of the columns that are used") {
  constexpr int width = 16, keys_used = 5, values_used = 3;
  constexpr Index rows = 40;
  const auto numbers = [](int used, double beyond, std::uint64_t seed) {
    std::vector<double> matrix(rows * width, beyond);
    for (Index i = 0; i < rows; ++i) {
      for (int c = 0; c < used; ++c) {
        matrix[static_cast<std::size_t>(i * width + c)] = normal(seed, static_cast<std::uint64_t>(i * width + c));
      }
    }
    return matrix;
  };
  const auto query = numbers(keys_used, 0, 1), key = numbers(keys_used, NAN, 2), value = numbers(values_used, 0, 3);
  std::vector<double> out(rows * width, NAN), log_sums(rows), scratch(20000, NAN);
  const AttentionHead<AttentionSize{1, width, width}, double, keys_used, values_used> head(
      AttentionOperands<double>{query.data(), key.data(), value.data()}, 0, rows, 0);
  head.forward(out.data(), log_sums.data(), scratch.data());
  double worst = 0;
  for (Index i = 0; i < rows; ++i) {
    double total = 0, expected[width]{};
    for (Index j = 0; j <= i; ++j) {
      double score = 0;
      for (int c = 0; c < keys_used; ++c) {
        score += query[static_cast<std::size_t>(i * width + c)] * key[static_cast<std::size_t>(j * width + c)];
      }
      const double weight = std::exp(score / std::sqrt(double(keys_used)));
      total += weight;
      for (int c = 0; c < width; ++c) expected[c] += weight * value[static_cast<std::size_t>(j * width + c)];
    }
    for (int c = 0; c < width; ++c) {
      const double difference = std::abs(out[static_cast<std::size_t>(i * width + c)] - expected[c] / total);
      if (!(difference <= worst)) worst = difference;
    }
    CHECK(log_sums[static_cast<std::size_t>(i)] == doctest::Approx(std::log(total)).epsilon(1e-13));
  }
  CHECK(worst < 1e-14);
}
