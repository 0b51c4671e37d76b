// SPDX-License-Identifier: MIT
#include "cuda/on_device.hpp"

#include <simplx/blocks/tokens.hpp>
#include <simplx/models/encoder.hpp>

using namespace simplx;

namespace {

constexpr Decoder small(const BlockConfig& block, double dropout = 0) {
  return {.block = block, .vocab = 11, .width = 8, .heads = 2, .layers = 2, .context = 9,
          .positions = Positions::learned, .dropout = dropout, .attention_dropout = dropout};
}
constexpr Decoder pre_ln_dropping = small(pre_ln, 0.3), norm_former_model = small(norm_former_resscale);
constexpr Encoder bert{
    .block = bert_sas_p, .vocab = 11, .width = 8, .heads = 2, .layers = 2, .context = 9, .masked_head = true};

constexpr Encoder in_bfloat16(BlockConfig block, bool alibi) {
  block.alibi = alibi;
  return {.block = block, .vocab = 11, .width = 16, .heads = 2, .layers = 2, .context = 9};
}
constexpr Encoder gated = in_bfloat16(bert_pre_ln, false), biased = in_bfloat16(bert_sas_p, true);
constexpr Decoder wide{.block = sas_p, .vocab = 11, .width = 16, .heads = 2, .layers = 2, .context = 9,
                       .positions = Positions::learned};

/// One set of parameters for three layers, whose shaped attention is in a window.
constexpr DecoderOf<Shared<ConfiguredBlock>> looping(Index width, double dropout = 0) {
  return {.block = {{.config = sas_p, .heads = 2, .hidden = 16, .dropout = dropout, .attention_dropout = dropout,
                     .window = 4}},
          .vocab = 11, .width = width, .layers = 3, .context = 9, .positions = Positions::learned};
}
constexpr DecoderOf<Shared<ConfiguredBlock>> looped = looping(8, 0.3), looped_wide = looping(16);

}  // namespace

TEST_SUITE_BEGIN("cuda/models");

TEST_CASE("a decoder: logits, losses and every gradient are those of the CPU") {
  test::same_on_device<norm_former_model>(15, {4, 9, 2});
}

TEST_CASE("dropout has the masks of the CPU in every layer") {
  test::same_on_device<pre_ln_dropping>(15, {4, 9, 2}, {.training = true, .key = 7, .first_sequence = 3});
}

TEST_CASE("layers that share their parameters add to one gradient, and each draws its mask") {
  test::same_on_device<looped>(15, {4, 9, 2}, {.training = true, .key = 7, .first_sequence = 3});
  test::bfloat16_on_device<looped_wide>(15, 0.02, {9, 1, 5}, test::Parameters::stirred);
}

TEST_CASE("an encoder sees whole sequences") { test::same_on_device<bert>(15, {9, 1, 5}); }

TEST_CASE("encoders in bfloat16: a gated MLP after LayerNorm, and shaped attention that falls to both sides") {
  test::bfloat16_on_device<gated>(15, 0.02, {9, 1, 5}, test::Parameters::stirred);
  test::bfloat16_on_device<biased>(15, 0.02, {9, 1, 5}, test::Parameters::stirred);
}

TEST_CASE("in tf32 products round their operands to 10 bits, and every gradient is near that of the CPU") {
  const std::vector<Index> lengths{4, 9, 2};
  constexpr auto stirred = test::Parameters::stirred;
  const auto on_cpu = test::expected<wide>(15, lengths, {}, stirred);
  const auto rounded =
      test::same_bits([&] { return test::all_of<wide, Cuda<Precision::tf32>>(15, lengths, {}, stirred); });
#if defined(__CUDACC__)
  constexpr double bound = 0.005;  // a card may cut the last bits off, which is no rounding to the nearest
#else
  constexpr double bound = 0.002;
#endif
  test::check_close(rounded, on_cpu, bound);
  CHECK(test::farthest(rounded, on_cpu) > 1e-4);  // it was rounded
}

TEST_SUITE_END();
