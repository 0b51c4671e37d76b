// SPDX-License-Identifier: MIT
#include "three_layers.hpp"

using namespace simplx;

TEST_CASE("blocks/norm_former_gradients: its ablations, against differences") {
  test::check_block<test::token<norm_former_resscale_both>>({.step = 1e-3});
  test::check_block<test::token<norm_former_resscale_no_post_attention_norm>>({.step = 1e-3});
  test::check_block<test::token<norm_former_resscale_no_ffn_norm>>({.step = 1e-3});
  test::check_block<test::token<norm_former_resscale_no_head_scale>>({.step = 1e-3});
  test::check_block<test::token<norm_former_resscale_qkv_norm>>({.step = 1e-3});
  test::check_block<test::token<resscale_only>>({.step = 1e-3});
}
