// SPDX-License-Identifier: MIT
#pragma once

// What is known of a model before it exists.

#include <simplx/models/published.hpp>
#include <simplx/train/recipes.hpp>

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

template <auto const& model>
Preset preset(const char* name, Index tokens_per_step) {
  const simplx::Rows sequence{.tokens = model.context};
  const auto tokens = static_cast<double>(model.context);
  return {.name = name,
          .parameters = simplx::parameters<model>,
          .parameters_published = simplx::parameters_published<model>(),
          .flops_per_token = simplx::flops<model>(sequence) / tokens,
          .flops_per_token_causal = simplx::causal_flops<model>(sequence) / tokens,
          .kept_bytes_per_token = static_cast<double>(simplx::kept_bytes<model>(sequence)) / tokens,
          .layers = model.layers,
          .heads = model.heads,
          .context = model.context,
          .tokens_per_step = tokens_per_step};
}

/// The model simplx::presets::model under its own name.
#define PRESET(model, tokens_per_step) preset<simplx::presets::model>(#model, tokens_per_step)

// A family each, in a source of its own: the compiler evaluates their graphs side by side.
std::vector<Preset> code_parrot_presets();
std::vector<Preset> crammed_bert_presets();
std::vector<Preset> languini_presets();
std::vector<Preset> norm_former_presets();
std::vector<Preset> gpt3_presets();

}  // namespace plan
