// SPDX-License-Identifier: MIT
#include <simplx/ops/sequences.hpp>

#include <simplx/differentiate/gradcheck.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

inline constexpr auto all = [] {
  const Expr x = variable("x", rows_of(Axis::tokens, 21)), z = variable("z", rows_of(Axis::sequences, 21));
  const Expr mean = mean_of_sequence(square(x)), told = repeat_over_sequence(z * mean);
  return sum(tanh(told * x) + repeat_over_sequence(sum_of_sequence(x * x))) + sum(square(sum_of_sequence(x) * z));
};
struct Results {
  Expr sum, mean, repeated;
};
inline constexpr auto each = [] {
  const Expr x = input("x", rows_of(Axis::tokens, 2)), z = input("z", rows_of(Axis::sequences, 2));
  return Results{sum_of_sequence(x), mean_of_sequence(x), repeat_over_sequence(z)};
};
inline constexpr auto long_mean = [] { return mean_of_sequence(input("x", rows_of(Axis::tokens, 1))); };

std::vector<double> copy_of(std::span<double> numbers) { return {numbers.begin(), numbers.end()}; }

}  // namespace

TEST_SUITE_BEGIN("ops/sequences");

TEST_CASE("derivatives of every order, of sequences of several lengths, empty ones too") {
  for (const std::vector<Index>& lengths : {std::vector<Index>{3, 1, 5}, {0, 4, 0, 2, 0}, {7}}) {
    const GradientReport report =
        gradcheck<all>({.rows = {.sequences = static_cast<Index>(lengths.size())}, .lengths = lengths});
    CHECK(report.worst < 1e-7);
    CHECK(report.adjoint < 1e-10);
    CHECK(report.jvp < 1e-13);
    CHECK(report.hvp < 1e-6);
  }
  CHECK(test::distance_to_reference<all, float>() < 1e-5);
}

TEST_CASE("sums, means and copies of each sequence; zeros of an empty one") {
  Evaluation<each> run(Rows{.tokens = 4}, 0, {3, 0, 1});
  std::ranges::copy(std::vector<double>{1, 2, 3, 4, 5, 9, 7, 8}, run.input("x").begin());
  std::ranges::copy(std::vector<double>{1, 2, 3, 4, 5, 6}, run.input("z").begin());
  run.forward();
  CHECK(copy_of(run.output(0)) == std::vector<double>{9, 15, 0, 0, 7, 8});
  CHECK(copy_of(run.output(1)) == std::vector<double>{3, 5, 0, 0, 7, 8});
  CHECK(copy_of(run.output(2)) == std::vector<double>{1, 2, 1, 2, 1, 2, 5, 6});
}

TEST_CASE("a mean over a million tokens is about as accurate in float as over a thousand") {
  constexpr Index tokens = 1 << 20;
  Evaluation<long_mean, Cpu<float>> run(simplx::tokens{tokens});
  for (float& x : run.input("x")) x = 0.1f;
  run.forward();
  CHECK(std::abs(run.output()[0] - 0.1f) < 2e-6f);
}

TEST_SUITE_END();
