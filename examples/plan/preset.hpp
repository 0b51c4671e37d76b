// SPDX-License-Identifier: MIT
#pragma once

// What is known of a model before it exists.

#include <simplx/core/shape.hpp>

#include <optional>
#include <vector>

namespace plan {

using simplx::Index;

struct Preset {
  const char* name;
  Index parameters;
  std::optional<Index> parameters_published;
  double flops_per_token, flops_per_token_causal;
  double kept_bytes_per_token;  ///< in numbers of four bytes
  int layers, heads;
  Index context;
  Index tokens_per_step;  ///< of its recipe
};

// A family each, in a source of its own: the compiler evaluates their graphs side by side.
std::vector<Preset> code_parrot_presets();
std::vector<Preset> crammed_bert_presets();
std::vector<Preset> languini_presets();
std::vector<Preset> norm_former_presets();
std::vector<Preset> gpt3_presets();

}  // namespace plan
