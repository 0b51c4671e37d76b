// SPDX-License-Identifier: MIT
#include <simplx/nn/dropout.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
struct Dropped {
  double rate = 0.25;
  constexpr Expr operator()(Expr x) const { return named("dropout", Dropout{rate})(x) * 2; }
};
inline constexpr test::OnTokens<Dropped> quarter{8}, never{8, {0}};
struct Twice {
  constexpr Expr operator()(Expr x) const { return x * 2; }
};
inline constexpr test::OnTokens<Twice> without{8};
static_assert(same_graph<never, without>() && !same_graph<quarter, without>());
struct Two {
  constexpr Expr operator()(Expr x) const {
    return named("one", Dropout{0.5})(x) - named("other", Dropout{0.5})(x);
  }
};
inline constexpr test::OnTokens<Two> two{8};
}  // namespace

TEST_SUITE_BEGIN("nn/dropout");

TEST_CASE("two modules draw masks of their own") {
  Evaluation<two> run(Rows{.tokens = 500});
  std::ranges::fill(run.input("x"), 1.0);
  run.random() = {.training = true, .key = 5};
  run.forward();
  const auto apart = std::ranges::count_if(run.output(), [](double y) { return y != 0; });
  CHECK(std::abs(apart - 2000) < 160);
}

TEST_CASE("a quarter is dropped in training, nothing otherwise, and the rate can be set by name") {
  Evaluation<quarter> run(Rows{.tokens = 500});
  std::ranges::fill(run.input("x"), 1.5);
  const auto dropped = [&] {
    run.forward();
    Index zeros = 0;
    const double kept = run.random().training ? 3 / (1 - run.constant("dropout.rate")[0]) : 3;
    for (const double y : run.output()) {
      CHECK((y == 0 || y == doctest::Approx(kept)));
      zeros += y == 0;
    }
    return zeros;
  };
  CHECK(dropped() == 0);
  run.random() = {.training = true, .key = 5};
  CHECK(std::abs(dropped() - 1000) < 140);  // 5 deviations
  run.constant("dropout.rate")[0] = 0.5;
  CHECK(std::abs(dropped() - 2000) < 160);
}

TEST_SUITE_END();
