// SPDX-License-Identifier: MIT
#include "three_layers.hpp"

using namespace simplx;

TEST_CASE("blocks/norm_former_gradients: NormFormer and where its parts stand, against differences") {
  test::check_block<test::token<pre_ln_biased>>({.step = 1e-3});
  test::check_block<test::token<norm_former>>({.step = 1e-3});
  test::check_block<test::token<norm_former_after_projection>>({.step = 1e-3});
  test::check_block<test::token<norm_former_resscale>>({.step = 1e-3});
  test::check_block<test::token<norm_former_resscale_scalar>>({.step = 1e-3});
  test::check_block<test::token<norm_former_relu2>>({.step = 1e-3});
  test::check_block<test::token<pre_ln_biased_relu2>>({.step = 1e-3});
}
