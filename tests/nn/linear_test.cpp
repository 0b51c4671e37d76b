// SPDX-License-Identifier: MIT
#include <simplx/nn/linear.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
inline constexpr test::OnTokens<Linear> biased{3, {.out = 2, .bias = true}};
inline constexpr test::OnTokens<Linear> unbiased{3, {.out = 2}};
inline constexpr test::OnTokens<Linear> square{3};
inline constexpr test::OnTokens<Reparameterised> learned{4, {}};
inline constexpr test::OnTokens<Reparameterised> with_base{4, {orthogonal, fixed_at(0.5), trainable(0.2)}};
inline constexpr test::OnTokens<Reparameterised> base_alone{4, {normal_by_rows, fixed_at(1), fixed_at(0)}};
inline constexpr test::OnTokens<Reparameterised> nothing_left{4, {identity, fixed_at(1), fixed_at(0)}};
struct Unchanged {
  constexpr Expr operator()(Expr x) const { return x; }
};
inline constexpr test::OnTokens<Unchanged> unchanged{4};
static_assert(same_graph<nothing_left, unchanged>());
static_assert(parameters<with_base> == 4 * 4 + 1 && parameters<base_alone> == 0 && parameters<square> == 9);
static_assert(parameters<biased> == 3 * 2 + 2 && parameters<unbiased> == 3 * 2);
static_assert(parameters<learned> == 4 * 4 + 2);
}  // namespace

TEST_SUITE_BEGIN("nn/linear");

TEST_CASE("y = x W + b by hand") {
  Evaluation<biased> run(Rows{.tokens = 1});
  std::ranges::copy(std::array{1.0, 2.0, 3.0}, run.input("x").begin());
  std::ranges::copy(std::array{1.0, 10.0, 2.0, 20.0, 3.0, 30.0}, run.parameter("weight").begin());  // (3, 2)
  std::ranges::copy(std::array{0.5, 0.25}, run.parameter("bias").begin());
  run.forward();
  CHECK(run.output()[0] == 14.5);
  CHECK(run.output()[1] == 140.25);
}

TEST_CASE("alpha x + beta x D: the identity at first, where beta learns nothing and D learns beta x^T dy") {
  Evaluation<learned> run(Rows{.tokens = 3});
  test::fill_inputs(run);
  run.parameter("beta")[0] = 0.2;
  run.forward();
  CHECK(std::ranges::equal(run.output(), run.input("x")));
  std::ranges::fill(run.output_gradient(), 1.0);
  run.backward();
  CHECK(run.gradient("beta")[0] == 0);
  double expected = 0;
  for (std::size_t row = 0; row < 3; ++row) expected += 0.2 * run.input("x")[row * 4 + 2];
  CHECK(run.gradient("delta")[2 * 4 + 1] == doctest::Approx(expected));
  test::check_model<learned>();
}

TEST_CASE("alpha x W0 + beta x D by hand, with a base that is not trained") {
  Evaluation<with_base> run(Rows{.tokens = 1});
  std::ranges::copy(std::array{1.0, 2.0, 3.0, 4.0}, run.input("x").begin());
  std::ranges::fill(run.constant("base"), 0.0);
  std::ranges::fill(run.parameter("delta"), 0.0);
  run.constant("base")[1 * 4 + 2] = 10;   // x_1 goes to y_2
  run.parameter("delta")[0 * 4 + 2] = 5;  // x_0 too
  run.forward();
  CHECK(run.output()[2] == doctest::Approx(0.5 * 2 * 10 + 0.2 * 1 * 5).epsilon(1e-15));
  CHECK(run.output()[1] == 0);
  CHECK(run.parameter("beta")[0] == 0.2);
  test::check_model<with_base>();
}

TEST_SUITE_END();
