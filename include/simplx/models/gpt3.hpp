// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/models/gpt3.hpp
/// A model that no one machine holds, to plan with: GPT-3 of 175 billion parameters (Brown et al. 2020, Table 2.1) with
/// its own blocks, and with those of "Simplifying Transformer Blocks".

#include <simplx/models/decoder.hpp>

namespace simplx::inline SIMPLX_TARGET {

constexpr Decoder gpt3_175b(const BlockConfig& block) {
  return {.block = block,
          .vocab = 50'257,
          .width = 12'288,
          .heads = 96,
          .layers = 96,
          .context = 2048,
          .positions = Positions::learned};
}

namespace presets {
inline constexpr Decoder gpt3_175b_pre_ln = gpt3_175b(pre_ln_biased), gpt3_175b_sas_p = gpt3_175b(sas_p);
}  // namespace presets

}  // namespace simplx
