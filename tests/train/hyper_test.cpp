// SPDX-License-Identifier: MIT
#include <simplx/train/hyper.hpp>

#include <simplx/train/evaluation.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

/// Two numbers of three are rates; what follows them is a row of three.
struct Rates {
  constexpr Expr operator()() const {
    const Expr x = input("x", rows_of(Axis::tokens, 3));
    const auto first = named("first", [](Expr x) { return hyper("rate", 2) * x; });
    const auto second = named("second", [](Expr x) { return hyper("rate", 3) * x; });
    return first(x) + second(x) + hyper("offset", 1) + fixed("row.rate", 1, 3, constant(10));
  }
};
inline constexpr Rates rates{};

inline constexpr auto without = [] { return square(input("x", rows_of(Axis::tokens, 3))); };

}  // namespace

TEST_SUITE_BEGIN("train/hyper");

TEST_CASE("numbers are set by their names, those of a pattern at once, and count from the next evaluation on") {
  Evaluation<rates> run(Rows{.tokens = 2});
  std::ranges::fill(run.input("x"), 1);
  const auto result = [&] {
    run.forward();
    return run.output()[5];
  };
  CHECK(result() == 2 + 3 + 1 + 10);
  set_hyper(run, "second.rate", 5);
  CHECK(result() == 2 + 5 + 1 + 10);
  set_hyper(run, "*.rate", -1);  // the row is no number
  CHECK(result() == -2 + 1 + 10);
  set_hyper(run, "*", 0);
  CHECK(result() == 10);
}

TEST_CASE("what cannot be set is told, and nothing is set") {
  Evaluation<rates> run(Rows{.tokens = 2});
  const std::vector<double> before(run.constants().begin(), run.constants().end());
  CHECK_THROWS_WITH_AS(set_hyper(run, "secnd.rate", 0),
                       "no number of the model matches 'secnd.rate'\n"
                       "  hint: the nearest names are second.rate, first.rate, offset",
                       Error);
  CHECK_THROWS_WITH_AS(set_hyper(run, "row.rate", 0), doctest::Contains("no number"), Error);
  CHECK_THROWS_WITH_AS(set_hyper(run, "*", std::nan("")), doctest::Contains("'*' was to be set to nan"), Error);
  CHECK(std::ranges::equal(run.constants(), before));
  Evaluation<rates, Cpu<float>> in_float(Rows{.tokens = 2});
  CHECK_THROWS_WITH_AS(set_hyper(in_float, "*", 1e300), doctest::Contains("precision"), Error);
  CHECK(std::isfinite(in_float.constants()[0]));
  Evaluation<without> none(Rows{.tokens = 2});
  CHECK_THROWS_WITH_AS(set_hyper(none, "*", 0), doctest::Contains("it has none"), Error);
}

TEST_SUITE_END();
