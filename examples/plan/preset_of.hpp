// SPDX-License-Identifier: MIT
#pragma once

// What the compiler knows of a model; apart from preset.hpp, which the program's other half reads without any graph.

#include "preset.hpp"

#include <simplx/models/published.hpp>
#include <simplx/train/recipes.hpp>

namespace plan {

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

}  // namespace plan
