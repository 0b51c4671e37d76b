// SPDX-License-Identifier: MIT
#include "preset_of.hpp"

std::vector<plan::Preset> plan::languini_presets() {
  constexpr Index tokens = simplx::recipes::languini.tokens();
  return {PRESET(languini_pre_ln, tokens),
          PRESET(languini_parallel, tokens),
          PRESET(languini_sas, tokens),
          PRESET(languini_sas_p, tokens),
          PRESET(languini_sas_p_no_norm, tokens)};
}
