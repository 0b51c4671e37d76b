// SPDX-License-Identifier: MIT
#include "cuda/on_device.hpp"

#include <simplx/blocks/tokens.hpp>
#include <simplx/cuda/ops.cuh>

using namespace simplx;

namespace {

constexpr Decoder small(const BlockConfig& block) {
  return {.block = block, .vocab = 11, .width = 8, .heads = 2, .layers = 2, .context = 9};
}
constexpr Decoder sas_p_model = small(sas_p), pre_ln_model = small(pre_ln);

}  // namespace

TEST_SUITE_BEGIN("cuda/ops");

TEST_CASE("whole models: logits, losses and every gradient are those of the CPU") {
  test::same_on_device<sas_p_model>(15, {9, 6});
  test::same_on_device<pre_ln_model>(15, {4, 9, 2});
}

TEST_SUITE_END();
