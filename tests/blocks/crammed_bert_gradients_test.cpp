// SPDX-License-Identifier: MIT
#include "three_layers.hpp"

using namespace simplx;

namespace {
template <BlockConfig config>
inline constexpr test::ThreeLayers<ConfiguredBlock> token{{config, 2, 24, Mask::full}};
}  // namespace

TEST_CASE("blocks/crammed_bert_gradients: blocks that see the whole sequence, against differences") {
  test::check_block<token<bert_parallel>>({.step = 1e-3});
  test::check_block<token<bert_v_skip_init_shaped>>({.step = 1e-3});
  test::check_block<token<bert_sas_p>>({.step = 1e-3});
  test::check_block<token<bert_sas_p_no_norm>>({.step = 1e-3});
}
