// SPDX-License-Identifier: MIT
#include <simplx/train/evaluation.hpp>

#include "support.hpp"

#include <simplx/ops/cross_entropy.hpp>

#include <array>

using namespace simplx;

namespace {
struct Net {
  constexpr Expr operator()() const {
    return variable("x", rows_of(Axis::tokens, 4)) * weight("w", 4, 8) * hyper("factor", 2);
  }
};
inline constexpr Net net{};
inline constexpr auto classifier = [] {
  return cross_entropy(variable("x", rows_of(Axis::tokens, 4)) * weight("w", 4, 8, normal(1)),
                       indices("labels", Axis::tokens));
};
inline constexpr auto placed = [] {
  return variable("x", rows_of(Axis::tokens, 2)) + positions(weight("table", 4, 2));
};
}  // namespace

TEST_SUITE_BEGIN("train/evaluation");

TEST_CASE("everything is reachable by its name, and unknown names are errors") {
  Evaluation<net> run(Rows{.tokens = 3});
  CHECK(run.parameter("w").size() == 32);
  CHECK(run.constant("factor")[0] == 2);
  CHECK_THROWS_WITH_AS(run.parameter("v"), doctest::Contains("no parameter named 'v'\n  hint: the nearest names are w"),
                       Error);
  CHECK_THROWS_AS(run.constant("w"), Error);
  CHECK_THROWS_AS(run.indices("tokens"), Error);
  CHECK_THROWS_WITH_AS(Evaluation<net>(Rows{.tokens = 5}, 0, {2, 2}), doctest::Contains("4 tokens together, not 5"),
                       Error);
}

TEST_CASE("backward needs a forward before it") {
  Evaluation<net> run(Rows{.tokens = 3});
  CHECK_THROWS_WITH_AS(run.backward(), doctest::Contains("without a forward()"), Error);
  run.forward();
  CHECK_NOTHROW(run.backward());
}

TEST_CASE("sequences of negative or too great length are refused") {
  CHECK_THROWS_WITH_AS(Evaluation<net>(tokens{3}, 0, {5, -2}), doctest::Contains("a sequence of -2 tokens"), Error);
  CHECK_THROWS_WITH_AS(Evaluation<placed>(tokens{5}), doctest::Contains("5 tokens, but the model's positions end at 4"),
                       Error);
  CHECK_NOTHROW(Evaluation<placed>(tokens{5}, 0, {1, 4}));
  CHECK_THROWS_WITH_AS(Evaluation<net>(Rows{.batch = -1}), doctest::Contains("an evaluation of -1 rows"), Error);
}

TEST_CASE("a hyper-parameter set at run time is used") {
  Evaluation<net> run(Rows{.tokens = 1});
  test::fill_inputs(run);
  run.forward();
  const double before = run.output()[3];
  run.constant("factor")[0] = 6;
  run.forward();
  CHECK(run.output()[3] == doctest::Approx(3 * before));
}

TEST_CASE("backward sets the gradients; running twice gives them once") {
  Evaluation<net> run(Rows{.tokens = 2});
  test::fill_inputs(run);
  std::vector<double> first;
  for (int i = 0; i < 2; ++i) {
    run.forward();
    std::ranges::fill(run.output_gradient(), 1.0);
    run.backward();
    if (i == 0) first.assign(run.gradients().begin(), run.gradients().end());
  }
  CHECK(std::ranges::equal(first, run.gradients()));
}

TEST_CASE("a second backward after one forward gives the same gradients, though the first wrote over the logits") {
  static_assert(GraphOf<classifier>::uses_up_values && !GraphOf<net>::uses_up_values);
  Evaluation<classifier> run(Rows{.tokens = 3});
  test::fill_inputs(run, 8);
  run.forward();
  std::vector<double> first;
  for (int i = 0; i < 3; ++i) {
    std::ranges::copy(std::array{1.0, 2.0, 3.0}, run.output_gradient().begin());
    run.backward();
    if (i == 0) first.assign(run.gradients().begin(), run.gradients().end());
    CHECK(std::ranges::equal(first, run.gradients()));
  }
  CHECK(std::ranges::any_of(first, [](double g) { return g != 0; }));
}

TEST_CASE("inputs of the other kind are refused, and say so") {
  Evaluation<classifier> run(tokens{2});
  CHECK(run.input("x").size() == 8);
  CHECK_THROWS_WITH_AS(run.input("labels"), doctest::Contains("'labels' is one of indices"), Error);
  CHECK_THROWS_WITH_AS(run.input_gradient("labels"), doctest::Contains("'labels' is one of indices"), Error);
  CHECK_THROWS_WITH_AS(run.indices("x"), doctest::Contains("'x' is one of numbers"), Error);
}

TEST_CASE("labels that are no class are refused, -100 is none") {
  Evaluation<classifier> run(tokens{2});
  const auto labels = run.indices("labels");
  std::ranges::copy(std::array{7, -100}, labels.begin());
  CHECK_NOTHROW(run.forward());
  labels[1] = 1'000'000;
  CHECK_THROWS_WITH_AS(run.forward(), doctest::Contains("'labels' names 1000000 in row 1"), Error);
}

TEST_SUITE_END();
