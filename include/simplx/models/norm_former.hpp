// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/models/norm_former.hpp
/// The models of "NormFormer" (Shleifer et al. 2021): causal language models of four sizes (Table 2) and a masked one
/// (Table 3), each with the baseline's blocks, those of NormFormer, and those with residual scales.

#include <simplx/models/classifier.hpp>
#include <simplx/models/decoder.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// Sinusoids, embeddings times sqrt(d), 2048 tokens; dropout as in their scripts, of attention's weights as well. The
/// ablations (Table 7) are of 125M without dropout.
constexpr Decoder norm_former_decoder(const BlockConfig& block, int layers, Index width, int heads,
                                      double dropout = 0.1) {
  return {.block = block,
          .vocab = 51'200,
          .width = width,
          .heads = heads,
          .layers = layers,
          .context = 2048,
          .positions = Positions::sinusoidal,
          .scaled_embedding = true,
          .dropout = dropout,
          .attention_dropout = dropout};
}
constexpr Decoder norm_former_125m(const BlockConfig& block, double dropout = 0.1) {
  return norm_former_decoder(block, 12, 768, 12, dropout);
}
constexpr Decoder norm_former_355m(const BlockConfig& block) { return norm_former_decoder(block, 24, 1024, 16, 0); }
constexpr Decoder norm_former_1300m(const BlockConfig& block) { return norm_former_decoder(block, 24, 2048, 32); }
constexpr Decoder norm_former_2700m(const BlockConfig& block) { return norm_former_decoder(block, 32, 2560, 32); }

/// RoBERTa-base with norms in front of the branches and none of the embedding, with its dropout; two rows of its table
/// of positions, of 514, are not used.
constexpr Encoder norm_former_encoder(const BlockConfig& block) {
  return {.block = block,
          .vocab = 51'200,
          .width = 768,
          .heads = 12,
          .layers = 12,
          .context = 512,
          .positions = Positions::learned,
          .position_rows = 514,
          .embedding_norm = false,
          .masked_head = true,
          .dropout = 0.1,
          .attention_dropout = 0.1};
}

/// What it is fine-tuned as: RoBERTa-base's head.
///
/// Source  Shleifer et al. 2021, Sec. 2.2; Liu et al. 2019 (their code, where dropout of the head is off)
constexpr Classifier norm_former_classifier(const BlockConfig& block, Index classes) {
  return {norm_former_encoder(block), {.classes = classes, .dropout = 0}};
}

namespace presets {
inline constexpr Decoder normformer_125m_baseline = norm_former_125m(pre_ln_biased),
                         normformer_125m_normformer = norm_former_125m(norm_former),
                         normformer_125m_resscale = norm_former_125m(norm_former_resscale);
inline constexpr Decoder normformer_355m_baseline = norm_former_355m(pre_ln_biased),
                         normformer_355m_normformer = norm_former_355m(norm_former),
                         normformer_355m_resscale = norm_former_355m(norm_former_resscale);
inline constexpr Decoder normformer_1300m_baseline = norm_former_1300m(pre_ln_biased),
                         normformer_1300m_normformer = norm_former_1300m(norm_former),
                         normformer_1300m_resscale = norm_former_1300m(norm_former_resscale);
inline constexpr Decoder normformer_2700m_baseline = norm_former_2700m(pre_ln_biased),
                         normformer_2700m_relu2_baseline = norm_former_2700m(pre_ln_biased_relu2),
                         normformer_2700m_normformer = norm_former_2700m(norm_former_relu2),
                         normformer_2700m_resscale = norm_former_2700m(norm_former_resscale);
inline constexpr Encoder normformer_mlm_baseline = norm_former_encoder(pre_ln_biased),
                         normformer_mlm_normformer = norm_former_encoder(norm_former),
                         normformer_mlm_resscale = norm_former_encoder(norm_former_resscale);
}  // namespace presets

}  // namespace simplx
