// SPDX-License-Identifier: MIT
#include <simplx/core/execute.hpp>

#include "support.hpp"

using namespace simplx;

TEST_SUITE_BEGIN("core/execute");

TEST_CASE("an input that the result does not depend on has a gradient of zero") {
  struct Half {
    struct Results {
      Expr a, b;
    };
    constexpr Results operator()() const {
      auto x = variable("x", rows_of(Axis::tokens, 2)), table = weight("t", 3, 2);
      return {x + embedding(table, indices("i", Axis::tokens)), x * 2.0};
    }
  };
  static constexpr Half half{};
  Evaluation<half> run(Rows{.tokens = 3});
  test::fill_inputs(run, 3);
  run.forward();
  std::ranges::fill(run.output_gradient(0), 0.0);
  std::ranges::fill(run.output_gradient(1), 1.0);
  run.backward();
  for (const double g : run.gradient("t")) CHECK(g == 0);
  for (const double g : run.input_gradient("x")) CHECK(g == 2);
}

TEST_SUITE_END();
