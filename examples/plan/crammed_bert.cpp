// SPDX-License-Identifier: MIT
#include "preset_of.hpp"

std::vector<plan::Preset> plan::crammed_bert_presets() {
  constexpr Index tokens = simplx::recipes::crammed_bert.tokens();
  return {PRESET(bert_pre_ln, tokens),
          PRESET(bert_parallel, tokens),
          PRESET(bert_sas, tokens),
          PRESET(bert_sas_p, tokens),
          PRESET(bert_sas_p_no_norm, tokens)};
}
