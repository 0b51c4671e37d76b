// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/models/crammed_bert.hpp
/// The encoders on which "Simplifying Transformer Blocks" (He & Hofmann 2024, Sec. 5 and App. D.2) trains: the crammed
/// BERT of Geiping & Goldstein 2023 with other blocks. No matrix has a bias; 25 % of the tokens are predicted.

#include <simplx/models/encoder.hpp>

namespace simplx::inline SIMPLX_TARGET {

constexpr Encoder crammed_bert(const BlockConfig& block) {
  return {.block = block, .vocab = 32'768, .width = 768, .heads = 12, .hidden = 3072, .layers = 16, .context = 128};
}

namespace presets {
inline constexpr Encoder bert_pre_ln = crammed_bert(simplx::bert_pre_ln),
                         bert_parallel = crammed_bert(simplx::bert_parallel),
                         bert_sas = crammed_bert(simplx::bert_sas), bert_sas_p = crammed_bert(simplx::bert_sas_p),
                         bert_sas_p_no_norm = crammed_bert(simplx::bert_sas_p_no_norm);
}  // namespace presets

}  // namespace simplx
