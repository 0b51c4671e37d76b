// SPDX-License-Identifier: MIT
#include <simplx/core/graph.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

struct Results {
  Expr a, b, c;
};
struct Three {
  constexpr Results operator()() const {
    auto x = variable("x", rows_of(Axis::tokens, 4));
    return {x + 1.0, x * x, x};
  }
};
struct TwoAxes {  // a classifier's shape: tokens and a batch of rows of its own
  struct Both {
    Expr tokens, batch;
  };
  constexpr Both operator()() const {
    auto w = weight("w", 4, 8);
    return {variable("x", rows_of(Axis::tokens, 4)) * w, relu(variable("y", rows_of(Axis::batch, 4)) * w) + 1.0};
  }
};
inline constexpr Three three{};
inline constexpr TwoAxes two_axes{};

}  // namespace

TEST_SUITE_BEGIN("core/graph");

TEST_CASE("an aggregate of expressions gives several results, and inputs have numbers") {
  static_assert(GraphOf<three>::layout.outputs == 3 && GraphOf<three>::layout.inputs == 1);
  static_assert(GraphOf<three>::input_number("x") == 0 && GraphOf<three>::input_number("y") == -1);
  Evaluation<three> run(Rows{.tokens = 1});
  std::ranges::copy(std::array{1.0, 2.0, 3.0, 4.0}, run.input("x").begin());
  run.forward();
  CHECK(run.output(0)[1] == 3);
  CHECK(run.output(1)[1] == 4);
  CHECK(run.output(2)[1] == 2);
  for (int k = 0; k < 3; ++k) std::ranges::fill(run.output_gradient(k), 1.0);
  run.backward();
  CHECK(run.input_gradient("x")[1] == 1 + 2 * 2 + 1);
  CHECK_THROWS_WITH_AS(run.input("z"), doctest::Contains("no input named 'z'\n  hint: the nearest names are x"), Error);
  CHECK_THROWS_AS(run.output(3), Error);
}

TEST_CASE("each axis has rows of its own") {
  test::check_model<two_axes>({.step = 1e-3});
  Evaluation<two_axes> run(Rows{.tokens = 5, .batch = 2});
  CHECK(run.output(0).size() == 5 * 8);
  CHECK(run.output(1).size() == 2 * 8);
}

TEST_SUITE_END();
