// SPDX-License-Identifier: MIT
#include <simplx/models/norm_former.hpp>
#include <simplx/core/parameters.hpp>
#include <simplx/models/published.hpp>

#include <doctest/doctest.h>

using namespace simplx;
using namespace simplx::presets;

namespace {

template <auto const& model, Index count>
constexpr bool counts = parameters<model> == count && parameters_published<model>() == count;

static_assert(counts<normformer_125m_baseline, 124'377'600>);
static_assert(counts<normformer_125m_normformer, 124'469'904>);
static_assert(counts<normformer_125m_resscale, 124'479'120>);
static_assert(counts<normformer_355m_baseline, 354'740'224>);
static_assert(counts<normformer_355m_normformer, 354'986'368>);
static_assert(counts<normformer_355m_resscale, 355'010'944>);
static_assert(counts<normformer_1300m_baseline, 1'313'460'224>);
static_assert(counts<normformer_1300m_normformer, 1'313'952'512>);
static_assert(parameters<normformer_1300m_resscale> == 1'313'952'512 + 24 * 2048);
static_assert(!parameters_published<normformer_1300m_resscale>());
static_assert(counts<normformer_2700m_baseline, 2'648'724'480>);
static_assert(counts<normformer_2700m_normformer, 2'649'544'704>);
static_assert(counts<normformer_2700m_relu2_baseline, 2'648'724'480>);
static_assert(normformer_2700m_normformer.block == norm_former_relu2);  // Sec. 2.2
static_assert(normformer_125m_baseline.dropout == 0.1 && normformer_2700m_normformer.dropout == 0.1);
static_assert(normformer_355m_baseline.dropout == 0 && norm_former_125m(pre_ln_biased, 0).dropout == 0);
static_assert(normformer_mlm_baseline.dropout == 0.1);
static_assert(normformer_125m_baseline.attention_dropout == 0.1 && normformer_mlm_normformer.attention_dropout == 0.1);
static_assert(normformer_355m_baseline.attention_dropout == 0);
static_assert(parameters<normformer_2700m_resscale> == 2'649'544'704 + 32 * 2560);
static_assert(!parameters_published<normformer_2700m_resscale>());

static_assert(counts<normformer_mlm_baseline, 125'415'680>);
static_assert(parameters_published<normformer_mlm_normformer>() == 125'507'840);
static_assert(parameters_published<normformer_mlm_resscale>() == 125'517'056);
static_assert(parameters<normformer_mlm_normformer> == 125'507'840 + 12 * 12);  // the published code lacks head scales
static_assert(parameters<normformer_mlm_resscale> == 125'517'056 + 12 * 12);
static_assert(parameter_shape<normformer_mlm_baseline>("position.weight") == fixed_shape(514, 768));
static_assert(parameter_shape<normformer_mlm_baseline>("head.bias") == fixed_shape(1, 51'200));

/// The control that spends NormFormer's parameters on width.
inline constexpr Decoder wider = norm_former_decoder(pre_ln_biased, 12, 780, 12);
static_assert(parameters<wider> == 127'668'840);

}  // namespace

TEST_CASE("models/norm_former: what is added costs 0.074 % of the parameters at 125M and 0.031 % at 2.7B") {
  const auto added = [](Index with, Index without) {
    return static_cast<double>(with) / static_cast<double>(without) - 1;
  };
  CHECK(added(parameters<normformer_125m_normformer>, parameters<normformer_125m_baseline>) ==
        doctest::Approx(0.00074).epsilon(0.01));
  CHECK(added(parameters<normformer_2700m_normformer>, parameters<normformer_2700m_baseline>) ==
        doctest::Approx(0.00031).epsilon(0.01));
}
