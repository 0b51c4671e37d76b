// SPDX-License-Identifier: MIT
#include <simplx/nn/linear.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
inline constexpr test::OnTokens<Linear> biased{3, {.out = 2, .bias = true}};
inline constexpr test::OnTokens<Linear> unbiased{3, {.out = 2}};
inline constexpr test::OnTokens<ReparameterisedIdentity> reparameterised{4};
static_assert(parameters<biased> == 3 * 2 + 2 && parameters<unbiased> == 3 * 2);
static_assert(parameters<reparameterised> == 4 * 4 + 2);
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
  Evaluation<reparameterised> run(Rows{.tokens = 3});
  test::fill_inputs(run);
  run.parameter("beta")[0] = 0.2;
  run.forward();
  CHECK(std::ranges::equal(run.output(), run.input("x")));
  std::ranges::fill(run.seed(), 1.0);
  run.backward();
  CHECK(run.gradient("beta")[0] == 0);
  double expected = 0;
  for (std::size_t row = 0; row < 3; ++row) expected += 0.2 * run.input("x")[row * 4 + 2];
  CHECK(run.gradient("delta")[2 * 4 + 1] == doctest::Approx(expected));
  test::check_model<reparameterised>();
}

TEST_SUITE_END();
