// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/models/crammed_bert.hpp
/// The encoders on which "Simplifying Transformer Blocks" (He & Hofmann 2024, Sec. 5 and App. D.2) trains: the crammed
/// BERT of Geiping & Goldstein 2023 with other blocks. No matrix has a bias; 25 % of the tokens are predicted.

#include <simplx/models/classifier.hpp>

namespace simplx::inline SIMPLX_TARGET {

constexpr Encoder crammed_bert(const BlockConfig& block) {
  return {.block = block, .vocab = 32'768, .width = 768, .heads = 12, .hidden = 3072, .layers = 16, .context = 128};
}
/// What it is fine-tuned as, with dropout of 0.1.
///
/// Source  He & Hofmann 2024, App. D.2; width and biases of the head: the code of Geiping & Goldstein 2023. That pools
///         the first token where one setting is to do for all tasks of GLUE, and otherwise the mean over the tokens
constexpr Classifier crammed_bert_classifier(const BlockConfig& block, Index classes) {
  Encoder encoder = crammed_bert(block);
  encoder.dropout = 0.1;
  return {encoder, {.classes = classes, .pooled = 1024, .dropout = 0.1}};
}

namespace presets {
inline constexpr Encoder bert_pre_ln = crammed_bert(simplx::bert_pre_ln),
                         bert_parallel = crammed_bert(simplx::bert_parallel),
                         bert_v_skip_init_shaped = crammed_bert(simplx::bert_v_skip_init_shaped),
                         bert_sas = crammed_bert(simplx::bert_sas), bert_sas_p = crammed_bert(simplx::bert_sas_p),
                         bert_sas_p_no_norm = crammed_bert(simplx::bert_sas_p_no_norm);
}  // namespace presets

}  // namespace simplx
