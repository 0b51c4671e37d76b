// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/sample.hpp
/// What a trainer has learned, as text: the whole sequence is evaluated again for each token. A model that is done
/// is sampled faster by generate/generate.hpp.

#include <simplx/train/sampler.hpp>
#include <simplx/train/trainer.hpp>

#include <span>
#include <utility>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// Continues a prompt by `count` tokens; the model sees the last `context` of them.
///
/// Errors  throws Error for an empty prompt, and for options that make no sense
/// Cost    one forward pass over the context for each token
template <class Trainer>
std::vector<std::int32_t> sample(Trainer& trainer, std::vector<std::int32_t> prompt, int count,
                                 const Sampling& options = {}) {
  if (prompt.empty()) throw Error("the prompt is empty", "begin with at least one token");
  const auto context = static_cast<std::size_t>(trainer.options().context);
  Sampler draw(options);
  std::vector<std::int32_t> tokens = std::move(prompt);
  for (int i = 0; i < count; ++i) {
    const std::size_t seen = std::min(tokens.size(), context);
    const auto logits = trainer.logits(std::span<const std::int32_t>(tokens).last(seen));
    tokens.push_back(draw(logits.last(static_cast<std::size_t>(trainer.vocab()))));
  }
  return tokens;
}

}  // namespace simplx
