// SPDX-License-Identifier: MIT
#include "preset_of.hpp"

std::vector<plan::Preset> plan::code_parrot_presets() {
  constexpr Index tokens = simplx::recipes::code_parrot.tokens();
  return {PRESET(codeparrot_pre_ln, tokens),
          PRESET(codeparrot_parallel, tokens),
          PRESET(codeparrot_sas, tokens),
          PRESET(codeparrot_sas_p, tokens),
          PRESET(codeparrot_sas_p_no_norm, tokens)};
}
