// SPDX-License-Identifier: MIT
#include <simplx/core/execute.hpp>

#include "support.hpp"

using namespace simplx;

TEST_SUITE_BEGIN("core/execute");

TEST_CASE("unroll counts, also beyond eight") {
  int sum = 0, calls = 0;
  detail::unroll<3, 30>([&]<int i>(std::integral_constant<int, i>) { sum += i, ++calls; });
  CHECK(calls == 27);
  CHECK(sum == (3 + 29) * 27 / 2);
  detail::unroll<5, 5>([&]<int i>(std::integral_constant<int, i>) { ++calls; });
  CHECK(calls == 27);
}

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
  std::ranges::fill(run.seed(0), 0.0);
  std::ranges::fill(run.seed(1), 1.0);
  run.backward();
  for (const double g : run.gradient("t")) CHECK(g == 0);
  for (const double g : run.input_gradient("x")) CHECK(g == 2);
}

TEST_SUITE_END();
