// SPDX-License-Identifier: MIT
#include <simplx/ops/rotary.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
struct Turned {
  constexpr Expr operator()(Expr x) const {
    return rotary(x * vector("row", width(x)), 2, hyper("base", 100)) * x;
  }
};
inline constexpr test::OnTokens<Turned> turned{12}, wide{76};  // vectors of pairs, and what is left of one
struct AddedTo {
  constexpr Expr operator()(Expr x) const { return rotary(x, 2, hyper("base", 100)) + square(x); }
};
inline constexpr test::OnTokens<AddedTo> added_to{76};
inline constexpr auto plain = [] { return rotary(input("x", rows_of(Axis::tokens, 4)), 1, hyper("base", 10000)); };
}  // namespace

TEST_SUITE_BEGIN("ops/rotary");

TEST_CASE("derivatives of every order") {
  test::check_op<turned>();
  test::check_op<wide>();
  test::check_op<added_to>();
  CHECK(test::distance_to_reference<turned, float>() < 1e-5);
  CHECK(test::distance_to_reference<wide, float>() < 1e-5);
}

TEST_CASE_TEMPLATE("every pair of columns by the formula", S, float, double) {
  static constexpr auto model = [] { return rotary(input("x", rows_of(Axis::tokens, 76)), 2, hyper("base", 10000)); };
  Evaluation<model, Cpu<S>> run(Rows{.tokens = 300});
  for (std::size_t i = 0; i < run.input("x").size(); ++i) run.input("x")[i] = static_cast<S>(normal(3, i));
  run.forward();
  double worst = 0;
  for (std::size_t t = 0; t < 300; ++t) {
    for (std::size_t pair = 0; pair < 38; ++pair) {
      const double angle = static_cast<double>(t) * std::pow(10000.0, -2.0 * static_cast<double>(pair % 19) / 38);
      const double a = run.input("x")[76 * t + 2 * pair], b = run.input("x")[76 * t + 2 * pair + 1];
      const double u = a * std::cos(angle) - b * std::sin(angle), v = a * std::sin(angle) + b * std::cos(angle);
      worst = std::max({worst, std::abs(run.output()[76 * t + 2 * pair] - u),
                        std::abs(run.output()[76 * t + 2 * pair + 1] - v)});
    }
  }
  CHECK(worst < (sizeof(S) == 8 ? 2e-13 : 1e-6));  // an angle of 300 is known to 3e-14
}

TEST_CASE("by hand, positions counted within each sequence") {
  const std::vector<Index> lengths{2, 1};
  Evaluation<plain> run(Rows{.tokens = 3}, 0, lengths);
  for (std::size_t i = 0; i < 12; ++i) run.input("x")[i] = i % 2 == 0 ? 1 : 0;
  run.forward();
  CHECK(run.output()[0] == 1);
  CHECK(run.output()[4] == doctest::Approx(std::cos(1.0)));
  CHECK(run.output()[5] == doctest::Approx(std::sin(1.0)));
  CHECK(run.output()[6] == doctest::Approx(std::cos(0.01)));
  CHECK(run.output()[8] == 1);
}

TEST_CASE("scores depend on the distance alone") {
  Evaluation<plain> run(Rows{.tokens = 9});
  for (std::size_t t = 0; t < 9; ++t) {
    for (std::size_t i = 0; i < 4; ++i) run.input("x")[4 * t + i] = normal(3, i);
  }
  run.forward();
  const auto score = [&](std::size_t a, std::size_t b) {
    double total = 0;
    for (std::size_t i = 0; i < 4; ++i) total += run.output()[4 * a + i] * run.output()[4 * b + i];
    return total;
  };
  CHECK(score(2, 0) == doctest::Approx(score(8, 6)));
  CHECK(score(5, 1) == doctest::Approx(score(7, 3)));
  CHECK(score(5, 1) != doctest::Approx(score(7, 4)));
}

TEST_SUITE_END();
