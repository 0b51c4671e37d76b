// SPDX-License-Identifier: MIT
#include <simplx/ops/activation.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
struct Leaky {
  constexpr Expr operator()(Expr x) const { return leaky_relu(x, hyper("slope", 0.25)); }
};
struct LearnedSlope {
  constexpr Expr operator()(Expr x) const { return leaky_relu(x, scalar("slope", constant(0.25))); }
};
inline constexpr test::OnTokens<Leaky> leaky{16}, odd{5};
inline constexpr test::OnTokens<LearnedSlope> learned{5};
}  // namespace

TEST_SUITE_BEGIN("ops/activation");

TEST_CASE("leaky ReLU by hand; its derivative at 0 is 1, of negative zero too") {
  Evaluation<odd> run(Rows{.tokens = 1});
  std::ranges::copy(std::array{-2.0, -0.5, 0.0, -0.0, 3.0}, run.input("x").begin());
  run.forward();
  CHECK(std::ranges::equal(run.output(), std::array{-0.5, -0.125, 0.0, 0.0, 3.0}));
  std::ranges::fill(run.seed(), 8.0);
  run.backward();
  CHECK(std::ranges::equal(run.input_gradient("x"), std::array{2.0, 2.0, 8.0, 8.0, 8.0}));
}

TEST_CASE("gradients, of a trained slope too") {
  test::check_model<leaky>({.step = 1e-3});
  test::check_model<learned>({.step = 1e-3});
  CHECK(test::distance_to_reference<leaky, float>() < 1e-6);
}

TEST_SUITE_END();
