// SPDX-License-Identifier: MIT
#include "../trainer_of.hpp"

namespace {
/// As bert_sas differs from sas.
constexpr simplx::BlockConfig block = [] {
  simplx::BlockConfig config = simplx::v_skip_init_shaped;
  config.norm = simplx::Norm::layer_norm;
  config.norm_epsilon = 1e-12;
  config.activation = simplx::Activation::gelu;
  config.gated = true;
  return config;
}();
constexpr simplx::Encoder model = paper::encoder(block);
const paper::Offer<model> offer{"bert_v_skip_init_shaped"};
}  // namespace
