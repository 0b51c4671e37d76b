// SPDX-License-Identifier: MIT
#include "gains.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace train_lm {

using namespace simplx;

namespace {

std::span<const float> values_of(AnyTrainer& trainer, const TensorInfo& tensor) {
  return trainer.parameters().subspan(static_cast<std::size_t>(tensor.offset),
                                      static_cast<std::size_t>(tensor.size()));
}

/// Numbers, and rows with one number for each head.
bool is_gain(const TensorInfo& tensor) {
  const auto is = [&](const char* name) { return tensor.rank == 1 && tensor.name.ends_with(name); };
  return tensor.rank == 0 || is("attention.alpha") || is("attention.beta") || is("attention.gamma");
}

}  // namespace

std::vector<LayerValues> gains(AnyTrainer& trainer) {
  const std::string scope = "blocks.";
  std::vector<LayerValues> found;
  for (const TensorInfo& tensor : trainer.tensors().parameters) {
    if (!tensor.name.starts_with(scope) || !is_gain(tensor)) continue;
    std::size_t digits = 0;
    const std::size_t layer = std::stoul(tensor.name.substr(scope.size()), &digits);
    const std::string name = tensor.name.substr(scope.size() + digits + 1);
    auto entry = std::ranges::find(found, name, &LayerValues::name);
    if (entry == found.end()) {
      entry = found.insert(
          entry, {name, std::vector<std::optional<double>>(static_cast<std::size_t>(trainer.facts().layers))});
    }
    const auto values = values_of(trainer, tensor);
    entry->values[layer] = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  }
  return found;
}

Largest largest_parameter(AnyTrainer& trainer) {
  Largest largest;
  for (const TensorInfo& tensor : trainer.tensors().parameters) {
    for (const float value : values_of(trainer, tensor)) {
      const double size = std::isnan(value) ? HUGE_VAL : std::abs(static_cast<double>(value));
      if (size > largest.size) largest = {tensor.name, size};
    }
  }
  return largest;
}

}  // namespace train_lm
