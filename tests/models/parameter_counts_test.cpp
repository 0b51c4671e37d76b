// SPDX-License-Identifier: MIT
//
// Parameters of the first paper's decoder (App. D.1): vocabulary 50 000, width 768, 12 heads, 18 layers; learned
// positions in a table of 1024 rows and query and key biases as in its code. Live parameters only, RMSNorm at the end.

#include <simplx/core/counts.hpp>
#include <simplx/models/decoder.hpp>

#include <doctest/doctest.h>

using namespace simplx;

namespace {
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
}  // namespace

TEST_CASE("models/parameter_counts: SAS has 12.4 % fewer parameters than Pre-LN") {
  CHECK(1 - static_cast<double>(parameters<with_sas>) / static_cast<double>(parameters<with_pre_ln>) ==
        doctest::Approx(0.124).epsilon(0.005));
}
