// SPDX-License-Identifier: MIT
//
// Parameters of the papers' models. Live parameters only.

#include <simplx/core/counts.hpp>
#include <simplx/models/decoder.hpp>
#include <simplx/models/encoder.hpp>

#include <doctest/doctest.h>

using namespace simplx;

namespace {

// The first paper's decoder (App. D.1): vocabulary 50 000, width 768, 12 heads, 18 layers; learned positions in a table
// of 1024 rows and query and key biases as in its code, RMSNorm at the end.
constexpr Decoder code_parrot(BlockConfig block, Positions positions = Positions::learned) {
  block.query_key_bias = true;
  return {.block = block,
          .vocab = 50'000,
          .width = 768,
          .heads = 12,
          .layers = 18,
          .context = 1024,
          .positions = positions};
}
inline constexpr Decoder with_pre_ln = code_parrot(pre_ln), with_parallel = code_parrot(parallel),
                         with_shaped = code_parrot(v_skip_init_shaped), with_sas = code_parrot(sas),
                         with_sas_p = code_parrot(sas_p), without_table = code_parrot(sas_p, Positions::sinusoidal);
static_assert(parameters<with_pre_ln> == 166'644'480);
static_assert(parameters<with_parallel> == 166'630'656);
static_assert(parameters<with_shaped> == 166'645'182);
static_assert(parameters<with_sas> == 146'001'344);
static_assert(parameters<with_sas_p> == 145'987'502);
static_assert(parameters<without_table> == 145'987'502 - 786'432);

// Its encoder (App. D.2), the crammed BERT: vocabulary 32 768, 16 layers, no bias on a matrix, sinusoids times a number.
constexpr Encoder bert_of(const BlockConfig& block) {
  return {.block = block, .vocab = 32'768, .width = 768, .heads = 12, .hidden = 3072, .layers = 16};
}
inline constexpr Encoder bert = bert_of(bert_pre_ln), bert_with_sas = bert_of(bert_sas),
                         bert_with_sas_p = bert_of(bert_sas_p), bert_with_parallel = bert_of(bert_parallel),
                         bert_without_norms = bert_of(bert_sas_p_no_norm);
static_assert(parameters<bert> == 119'589'889);
static_assert(parameters<bert_with_sas> == 101'305'971);
static_assert(parameters<bert_with_sas_p> == 101'281'379);
static_assert(parameters<bert_with_parallel> == 119'589'889 - 16 * 1536);
static_assert(parameters<bert_without_norms> == 101'281'379 - 15 * 1536);

// The second paper's decoders (Table 2): vocabulary 51 200, sinusoids, biases everywhere, a final LayerNorm.
constexpr Decoder gpt_3(const BlockConfig& block, int layers, Index width, int heads) {
  return {.block = block, .vocab = 51'200, .width = width, .heads = heads, .layers = layers};
}
template <BlockConfig block>
inline constexpr Decoder of_125m = gpt_3(block, 12, 768, 12);
template <BlockConfig block>
inline constexpr Decoder of_355m = gpt_3(block, 24, 1024, 16);
template <BlockConfig block>
inline constexpr Decoder of_1300m = gpt_3(block, 24, 2048, 32);
template <BlockConfig block>
inline constexpr Decoder of_2700m = gpt_3(block, 32, 2560, 32);
static_assert(parameters<of_125m<pre_ln_biased>> == 124'377'600 && parameters<of_125m<norm_former>> == 124'469'904);
static_assert(parameters<of_355m<pre_ln_biased>> == 354'740'224 && parameters<of_355m<norm_former>> == 354'986'368);
static_assert(parameters<of_1300m<pre_ln_biased>> == 1'313'460'224);
static_assert(parameters<of_1300m<norm_former>> == 1'313'952'512);
static_assert(parameters<of_2700m<pre_ln_biased>> == 2'648'724'480);
static_assert(parameters<of_2700m<norm_former>> == 2'649'544'704);
static_assert(parameters<of_125m<norm_former_resscale>> == 124'479'120);
static_assert(parameters<of_355m<norm_former_resscale>> == 355'010'944);
static_assert(parameters<of_125m<norm_former_resscale_qkv_norm>> == 124'479'120 + 55'296);
static_assert(parameters<of_125m<post_ln>> == 124'377'600 - 2 * 768);  // without a final norm

}  // namespace

TEST_CASE("models/parameter_counts: SAS has 12.4 % fewer parameters than Pre-LN") {
  CHECK(1 - static_cast<double>(parameters<with_sas>) / static_cast<double>(parameters<with_pre_ln>) ==
        doctest::Approx(0.124).epsilon(0.005));
}
