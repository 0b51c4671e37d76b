// SPDX-License-Identifier: MIT
#include "cuda/on_device.hpp"

#include <simplx/blocks/tokens.hpp>
#include <simplx/models/encoder.hpp>

using namespace simplx;

namespace {

constexpr Decoder small(const BlockConfig& block, double dropout = 0) {
  return {.block = block, .vocab = 11, .width = 8, .heads = 2, .layers = 2, .context = 9,
          .positions = Positions::learned, .dropout = dropout};
}
constexpr Decoder pre_ln_dropping = small(pre_ln, 0.3), norm_former_model = small(norm_former_resscale);
constexpr Encoder bert{
    .block = bert_sas_p, .vocab = 11, .width = 8, .heads = 2, .layers = 2, .context = 9, .masked_head = true};

}  // namespace

TEST_SUITE_BEGIN("cuda/models");

TEST_CASE("a decoder: logits, losses and every gradient are those of the CPU") {
  test::same_on_device<norm_former_model>(15, {4, 9, 2});
}

TEST_CASE("dropout has the masks of the CPU in every layer") {
  test::same_on_device<pre_ln_dropping>(15, {4, 9, 2}, {.training = true, .key = 7, .first_sequence = 3});
}

TEST_CASE("an encoder sees whole sequences") { test::same_on_device<bert>(15, {9, 1, 5}); }

TEST_SUITE_END();
