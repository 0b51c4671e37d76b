// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/sample.hpp
/// Drawing text from a model, one token at a time.

#include <simplx/core/random.hpp>
#include <simplx/train/trainer.hpp>

#include <cmath>
#include <span>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// Draws an index with probability proportional to exp(logit / temperature); a temperature of 0 takes the largest.
template <class S>
std::int32_t draw(std::span<const S> logits, double temperature, double uniform_number) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (temperature <= 0) return static_cast<std::int32_t>(largest - logits.begin());
  const auto weight = [&](S logit) { return std::exp(static_cast<double>(logit - *largest) / temperature); };
  double total = 0;
  for (const S logit : logits) total += weight(logit);
  double left = uniform_number * total;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    left -= weight(logits[i]);
    if (left < 0) return static_cast<std::int32_t>(i);
  }
  return static_cast<std::int32_t>(logits.size()) - 1;
}

/// Continues a prompt by `count` tokens; the model sees the last `context` of them.
///
/// Errors  throws Error for an empty prompt
/// Cost    one forward pass over the context for each token
template <class Trainer>
std::vector<std::int32_t> sample(Trainer& trainer, std::vector<std::int32_t> tokens, int count, double temperature,
                                 std::uint64_t seed) {
  if (tokens.empty()) throw Error("the prompt is empty", "begin with at least one token");
  const auto context = static_cast<std::size_t>(trainer.options().context);
  const std::uint64_t key = key_of(seed, "sample");
  for (int i = 0; i < count; ++i) {
    const std::size_t seen = std::min(tokens.size(), context);
    const auto logits = trainer.logits(std::span<const std::int32_t>(tokens).last(seen));
    const auto last = logits.last(static_cast<std::size_t>(trainer.vocab()));
    tokens.push_back(draw(last, temperature, uniform(key, static_cast<std::uint64_t>(i))));
  }
  return tokens;
}

}  // namespace simplx
