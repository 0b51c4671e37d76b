// SPDX-License-Identifier: MIT
#include "preset_of.hpp"

std::vector<plan::Preset> plan::norm_former_presets() {
  constexpr Index small = simplx::recipes::norm_former_125m.tokens();
  constexpr Index large = simplx::recipes::norm_former_2700m.tokens();  // of the masked model as well
  return {PRESET(normformer_125m_baseline, small),
          PRESET(normformer_125m_normformer, small),
          PRESET(normformer_125m_resscale, small),
          PRESET(normformer_355m_baseline, small),
          PRESET(normformer_355m_normformer, small),
          PRESET(normformer_355m_resscale, small),
          PRESET(normformer_1300m_baseline, large),
          PRESET(normformer_1300m_normformer, large),
          PRESET(normformer_1300m_resscale, large),
          PRESET(normformer_2700m_baseline, large),
          PRESET(normformer_2700m_normformer, large),
          PRESET(normformer_2700m_resscale, large),
          PRESET(normformer_mlm_baseline, large),
          PRESET(normformer_mlm_normformer, large),
          PRESET(normformer_mlm_resscale, large)};
}
