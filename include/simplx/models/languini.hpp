// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/models/languini.hpp
/// The decoders on which "Simplifying Transformer Blocks" (He & Hofmann 2024, App. C) trains on the books of Languini:
/// ALiBi, LayerNorm, GELU (the approximation by tanh, as in the benchmark), and no bias on any matrix.

#include <simplx/models/decoder.hpp>

namespace simplx::inline SIMPLX_TARGET {

constexpr Decoder languini(BlockConfig block) {
  if (block.norm != Norm::none) block.norm = Norm::layer_norm;
  block.norm_epsilon = 1e-5;
  block.activation = Activation::gelu_tanh;
  block.alibi = true;
  return {.block = block,
          .vocab = 16'384,
          .width = 768,
          .heads = 12,
          .hidden = 3072,
          .layers = 12,
          .context = 512,
          .final_norm = Norm::layer_norm};
}

namespace presets {
inline constexpr Decoder languini_pre_ln = languini(pre_ln), languini_parallel = languini(parallel),
                         languini_sas = languini(sas), languini_sas_p = languini(sas_p),
                         languini_sas_p_no_norm = languini(sas_p_no_norm);
}  // namespace presets

}  // namespace simplx
