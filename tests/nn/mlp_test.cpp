// SPDX-License-Identifier: MIT
#include <simplx/nn/mlp.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
inline constexpr test::OnTokens<Mlp> mlp{8, {.hidden = 24}}, biased{5, {.hidden = 7, .bias = true}};
inline constexpr test::OnTokens<Mlp> four_times{8};
inline constexpr test::OnTokens<MlpOf<LeakyRelu>> leaky{8, {.hidden = 24, .activation = {.slope = 0.3}}};
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
