// SPDX-License-Identifier: MIT
#include <simplx/nn/mlp.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
inline constexpr test::OnTokens<Mlp> mlp{8, {.hidden = 24}}, biased{5, {.hidden = 7, .bias = true}};
inline constexpr test::OnTokens<Mlp> four_times{8};
inline constexpr test::OnTokens<MlpOf<LeakyRelu>> leaky{8, {.hidden = 24, .activation = {.slope = 0.3}}};
inline constexpr test::OnTokens<MlpOf<Gated<Gelu>, LayerNorm>> gated{8, {.hidden = 24}};
inline constexpr test::OnTokens<MlpOf<ReluSquared, RmsNorm>> squared{8, {.hidden = 24, .bias = true}};
inline constexpr test::OnTokens<MlpOf<GeluTanh>> by_tanh{8, {.hidden = 24}};
inline constexpr test::OnTokens<MlpOf<Gated<Silu>>> swiglu_mlp{8, {.hidden = 24}};
inline constexpr auto by_op = [] {
  const Expr h = variable("x", rows_of(Axis::tokens, 8)) * weight("up.weight", 8, 24);
  return swiglu(h) * weight("down.weight", 12, 8);
};
static_assert(same_graph<swiglu_mlp, by_op>());
static_assert(parameter_shape<gated>("up.weight") == fixed_shape(8, 24));
static_assert(parameter_shape<gated>("down.weight") == fixed_shape(12, 8));
static_assert(parameter_shape<gated>("norm.bias") == fixed_shape(1, 12));
static_assert(parameters<gated> == 8 * 24 + 12 * 8 + 2 * 12 && parameters<squared> == 2 * 8 * 24 + 24 + 8 + 24);
static_assert(parameters<four_times> == 2 * 8 * 32 && parameters<leaky> == 2 * 8 * 24);
static_assert(parameters<mlp> == 2 * 8 * 24 && parameters<biased> == 2 * 5 * 7 + 7 + 5);
static_assert(parameter_shape<biased>("down.weight") == fixed_shape(7, 5));
}  // namespace

TEST_CASE("nn/mlp: gradients, and two kernels forward") {
  test::check_model<mlp>({.step = 1e-3});
  test::check_model<biased>({.step = 1e-3});
  static_assert(GraphOf<mlp>::fusion.steps == 2 && GraphOf<leaky>::fusion.steps == 2);
  Evaluation<leaky> run(Rows{.tokens = 1});
  CHECK(run.constant("slope")[0] == 0.3);
}

TEST_CASE("nn/mlp: gates, norms and other activations") {
  test::check_model<gated>({.step = 1e-3});
  test::check_model<squared>({.step = 1e-3});
  test::check_model<by_tanh>({.step = 1e-3});
  test::check_model<swiglu_mlp>({.step = 1e-3});
}

TEST_CASE("nn/mlp: the first half of the columns is the value, the second its gate") {
  static constexpr test::OnTokens<Gated<Gelu>> unit{4};
  Evaluation<unit> run(Rows{.tokens = 1});
  std::ranges::copy(std::array{2.0, 3.0, 1.0, -2.0}, run.input("x").begin());
  run.forward();
  CHECK(run.output()[0] == doctest::Approx(2 * 0.8413447460685429));
  CHECK(run.output()[1] == doctest::Approx(3 * -0.04550026389635842));
}
