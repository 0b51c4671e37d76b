// SPDX-License-Identifier: MIT
#include "preset_of.hpp"

#include <simplx/models/gpt3.hpp>

std::vector<plan::Preset> plan::gpt3_presets() {
  constexpr Index tokens = 3'200'000;  // Brown et al. 2020, Table 2.1
  return {PRESET(gpt3_175b_pre_ln, tokens),
          PRESET(gpt3_175b_sas_p, tokens)};
}
