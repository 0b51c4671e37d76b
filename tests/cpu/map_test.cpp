// SPDX-License-Identifier: MIT
#include <simplx/cpu/map.hpp>

#include "support.hpp"

using namespace simplx;
using namespace simplx::cpu;

namespace {
struct Spread {
  constexpr Expr operator()(Expr x) const {
    return (x + vector("row", width(x))) * (x * weight("column", width(x), 1)) * scalar("one") + 2.0;
  }
};
inline constexpr test::OnTokens<Spread> spreads{20}, lone{1};

/// Literals of a group of single numbers are nowhere in memory.
inline constexpr auto of_numbers = [] {
  auto x = variable("x", fixed_shape(1, 1));
  return (1.0 - x) * (x + 2.0) / 4.0;
};
struct Sums {
  Expr all, by_rows;
};
inline constexpr auto sums = [] {
  auto x = input("x", rows_of(Axis::tokens, 2));
  return Sums{mean(x * scalar("one") + x), mean(x * vector("row", 2, ones) + x, Over::rows)};
};
}  // namespace

TEST_SUITE_BEGIN("cpu/map");

TEST_CASE("a group spreads rows, columns and numbers, with elements left at the end of each row") {
  test::check_model<spreads>();
  test::check_model<lone>();
}

TEST_CASE("a group of single numbers and literals") {
  Evaluation<of_numbers> run(Rows{});
  run.input("x")[0] = 3;
  run.forward();
  CHECK(run.output()[0] == -2.5);
  run.output_gradient()[0] = 1;
  run.backward();
  CHECK(run.input_gradient("x")[0] == -1.75);
}

TEST_CASE("a mean over a million rows in float, and its gradients, are as accurate as one over a thousand") {
  Evaluation<sums, Cpu<float>> run(Rows{.tokens = 1 << 20});
  std::ranges::fill(run.input("x"), 0.1f);
  run.parameter("one")[0] = 1;
  run.forward();
  CHECK(run.output(0)[0] == doctest::Approx(0.2).epsilon(1e-4));
  CHECK(run.output(1)[1] == doctest::Approx(0.2).epsilon(1e-4));
  run.output_gradient(0)[0] = run.output_gradient(1)[0] = run.output_gradient(1)[1] = 1;
  run.backward();
  CHECK(run.gradient("one")[0] == doctest::Approx(0.1).epsilon(1e-4));
  CHECK(run.gradient("row")[1] == doctest::Approx(0.1).epsilon(1e-4));
}

TEST_SUITE_END();
