// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/models/code_parrot.hpp
/// The decoders on which "Simplifying Transformer Blocks" (He & Hofmann 2024, Sec. 5 and App. D.1) trains on Python
/// source: the size of GPT-2 with 18 layers.
///
/// As their code has them: positions are learned, in the table of 1024 rows of GPT-2 of which 128 are used (with the
/// sinusoids of the text neither of the published 167M and 146M would come out); queries and keys have biases; epsilon
/// is 1e-5. The norm after the blocks is the RMSNorm of the text; .final_norm = Norm::layer_norm is that of the code.

#include <simplx/models/decoder.hpp>

namespace simplx::inline SIMPLX_TARGET {

constexpr Decoder code_parrot(BlockConfig block, int layers = 18, Index hidden = 3072) {
  block.query_key_bias = true;
  block.norm_epsilon = 1e-5;
  const bool trains_mlp_gain = block.mlp_gain.kind == Gain::Kind::trainable;
  if (layers == 18 && hidden == 1536 && trains_mlp_gain) block.mlp_gain = trainable(0.2);  // Fig. 6 alone: App. D.1
  return {.block = block,
          .vocab = 50'000,
          .width = 768,
          .heads = 12,
          .hidden = hidden,
          .layers = layers,
          .context = 128,
          .positions = Positions::learned,
          .position_rows = 1024,
          .final_norm = Norm::rms_norm};
}

/// Parameters as the released script counts them: each block has the biases of all matrices, zeros that are not
/// trained, two norms, and gains alpha, beta, gamma of each head and four of its branches, whether it uses them or not;
/// the last norm has a bias.
constexpr Index released_parameters(const Decoder& model) {
  const Index d = model.width, hidden = model.hidden ? model.hidden : 4 * d;
  const auto matrix = [d](Index columns) { return (d + 1) * columns; };  // with its bias
  const Index gains = 3 * model.heads + 4;
  Index total = (model.vocab + model.position_rows) * d + 2 * d;
  for (int layer = 0; layer < model.layers; ++layer) {
    const BlockConfig block = model.block.at(layer);
    total += 2 * matrix(d) + matrix(hidden) + hidden * d + d + 2 * d + gains;
    for (const Projection& projection : {block.value, block.projection}) {
      if (projection.kind != Projection::Kind::none) total += matrix(d);
      if (projection.kind == Projection::Kind::reparameterised) total += 2;
    }
  }
  return total;
}

namespace presets {
inline constexpr Decoder codeparrot_pre_ln = code_parrot(pre_ln), codeparrot_parallel = code_parrot(parallel),
                         codeparrot_v_skip_init_shaped = code_parrot(v_skip_init_shaped),
                         codeparrot_sas = code_parrot(sas), codeparrot_sas_p = code_parrot(sas_p),
                         codeparrot_sas_p_no_norm = code_parrot(sas_p_no_norm);
}  // namespace presets

}  // namespace simplx
