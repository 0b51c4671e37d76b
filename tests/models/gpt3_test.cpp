// SPDX-License-Identifier: MIT
#include <simplx/models/gpt3.hpp>
#include <simplx/core/counts.hpp>

#include <doctest/doctest.h>

using namespace simplx;
using namespace simplx::presets;

static_assert(parameters<gpt3_175b_pre_ln> == 174'604'259'328);

TEST_CASE("models/gpt3: SAS-P saves a sixth of the blocks' matrices") {
  constexpr double d = 12'288;
  CHECK(static_cast<double>(parameters<gpt3_175b_pre_ln> - parameters<gpt3_175b_sas_p>) ==
        doctest::Approx(96 * 2 * d * d - d * d).epsilon(1e-3));
}
