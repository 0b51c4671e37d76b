// SPDX-License-Identifier: MIT
#include <simplx/models/languini.hpp>
#include <simplx/core/parameters.hpp>
#include <simplx/models/published.hpp>

#include <doctest/doctest.h>

using namespace simplx;
using namespace simplx::presets;

namespace {
static_assert(parameters<languini_pre_ln> == 97'555'968 && parameters_published<languini_pre_ln>() == 97'555'968);
static_assert(parameters<languini_sas> == 83'990'486 && parameters_published<languini_sas>() == 83'990'486);
static_assert(parameters<languini_parallel> == parameters<languini_pre_ln> - 12 * 2 * 768);
static_assert(parameters<languini_sas_p> == parameters<languini_sas> - 12 * (2 * 768 + 1));
static_assert(!parameters_published<languini_sas_p>());
static_assert(has_parameter<languini_sas_p_no_norm>("final_norm.bias"));
static_assert(languini_sas_p_no_norm.norm_after_blocks().epsilon == 1e-5);
static_assert(!has_parameter<languini_sas>("position.weight") && has_parameter<languini_sas>("final_norm.bias"));
}  // namespace

TEST_CASE("models/languini: SAS has 13.9 % fewer parameters") {
  CHECK(1 - static_cast<double>(parameters<languini_sas>) / static_cast<double>(parameters<languini_pre_ln>) ==
        doctest::Approx(0.139).epsilon(0.001));
}
