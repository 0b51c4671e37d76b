// SPDX-License-Identifier: MIT
#include <simplx/models/published.hpp>

#include <doctest/doctest.h>

using namespace simplx;

namespace {
namespace p = presets;

static_assert(parameters<p::bert_pre_ln> == 119'589'889 && parameters<p::bert_sas> == 101'305'971);
static_assert(parameters<p::bert_sas_p> == 101'281'379);
static_assert(parameters<p::bert_parallel> == parameters<p::bert_pre_ln> - 16 * 2 * 768);
static_assert(parameters<p::bert_sas_p_no_norm> == parameters<p::bert_sas_p> - 15 * 2 * 768);
static_assert(parameters_published<p::bert_pre_ln>() == 119'589'889);
static_assert(parameters_published<p::bert_sas>() == 101'305'971);
static_assert(parameters_published<p::bert_sas_p>() == 101'281'379);
static_assert(parameters_published<p::bert_parallel>() == parameters<p::bert_parallel>);
// Its queries, keys and values are those of Pre-LN; 3 gains for each head and 3 of branches a block.
static_assert(parameters<p::bert_v_skip_init_shaped> == parameters<p::bert_pre_ln> + 16 * (3 * 12 + 3));
}  // namespace

TEST_CASE("models/crammed_bert: SAS has 15.3 % fewer parameters; gates take half of the columns from the MLP's FLOPs") {
  CHECK(1 - static_cast<double>(parameters<p::bert_sas>) / static_cast<double>(parameters<p::bert_pre_ln>) ==
        doctest::Approx(0.153).epsilon(0.001));
  const double layer = 2 * (4.0 * 768 * 768 + 1.5 * 768 * 3072) + 4 * 128 * 768;
  CHECK(flops<p::bert_pre_ln>(tokens{128}) == 128 * (16 * layer + 2.0 * 32'768 * 768));
  CHECK(causal_flops<p::bert_pre_ln>(tokens{128}) == flops<p::bert_pre_ln>(tokens{128}));  // it has no mask
}
