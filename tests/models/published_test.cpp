// SPDX-License-Identifier: MIT
#include <simplx/models/published.hpp>

#include <doctest/doctest.h>

using namespace simplx;
namespace p = presets;

// A count as the papers' code has it is no count of what is trained: frozen biases and gains, missing head scales.
static_assert(parameters_published<p::codeparrot_pre_ln>() == 166'742'736);
static_assert(parameters<p::codeparrot_pre_ln> == 166'644'480);
static_assert(parameters_published<p::codeparrot_sas>() == 146'072'018);
static_assert(parameters_published<p::normformer_mlm_normformer>() == 125'507'840);
static_assert(parameters<p::normformer_mlm_normformer> == 125'507'840 + 12 * 12);
static_assert(parameters_published<p::bert_parallel>() == 119'565'313);
static_assert(parameters_published<p::bert_sas_p_no_norm>() == 101'258'339);
static_assert(parameters_published<p::bert_v_skip_init_shaped>() == parameters<p::bert_pre_ln> + 16 * (3 * 12 + 3));
static_assert(!parameters_published<p::codeparrot_sas_p>() && !parameters_published<p::languini_sas_p>());

namespace {
inline constexpr Decoder twin = p::codeparrot_sas;  // the sizes of a published model do not make one
}
static_assert(!parameters_published<twin>());

TEST_CASE("models/published: counts of a publication are those of its presets alone") {
  CHECK(*parameters_published<p::codeparrot_sas>() > parameters<p::codeparrot_sas>);
}
