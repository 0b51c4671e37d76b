// SPDX-License-Identifier: MIT
#include <simplx/nn/mlp.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
inline constexpr test::OnTokens<Mlp> mlp{8, {.hidden = 24}}, biased{5, {.hidden = 7, .bias = true}};
static_assert(parameters<mlp> == 2 * 8 * 24 && parameters<biased> == 2 * 5 * 7 + 7 + 5);
static_assert(parameter_shape<biased>("down.weight") == fixed_shape(7, 5));
}  // namespace

TEST_CASE("nn/mlp: gradients, and two kernels forward") {
  test::check_model<mlp>({.step = 1e-3});
  test::check_model<biased>({.step = 1e-3});
  static_assert(GraphOf<mlp>::fusion.steps == 2);
}
