// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/batch.hpp
/// TokenBatch: packed sequences of tokens with their labels.

#include <simplx/core/error.hpp>
#include <simplx/ops/cross_entropy.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// Sequence s occupies [offsets[s], offsets[s + 1]) of both arrays; a label of -100 carries no loss.
struct TokenBatch {
  std::vector<std::int32_t> tokens, labels;
  std::vector<Index> offsets;

  Index sequences() const { return std::max<Index>(static_cast<Index>(offsets.size()) - 1, 0); }
};

/// What a batch must fit.
struct BatchLimits {
  Index sequences, context;  ///< at most, each
  Index tokens, labels;      ///< tokens are in [0, tokens), labels in [0, labels) or -100
};

/// Errors  throws Error that says which limit a batch does not keep
inline void check_batch(const TokenBatch& batch, const BatchLimits& limits) {
  if (batch.sequences() < 1 || batch.sequences() > limits.sequences) {
    throw Error("a batch of " + std::to_string(batch.sequences()) + " sequences for a trainer made for at most " +
                    std::to_string(limits.sequences),
                "raise TrainerOptions::batch");
  }
  for (Index b = 0; b < batch.sequences(); ++b) {
    const Index length = batch.offsets[b + 1] - batch.offsets[b];
    if (length >= 1 && length <= limits.context) continue;
    throw Error("a sequence of " + std::to_string(length) + " tokens for a context of " +
                    std::to_string(limits.context),
                "sequences have between one token and the context");
  }
  const Index begin = batch.offsets.front(), end = batch.offsets.back();
  if (begin < 0 || end > static_cast<Index>(std::min(batch.tokens.size(), batch.labels.size()))) {
    throw Error("sequences in [" + std::to_string(begin) + ", " + std::to_string(end) + ") of " +
                    std::to_string(batch.tokens.size()) + " tokens and " + std::to_string(batch.labels.size()) +
                    " labels",
                "the last offset is the number of tokens, and every token has a label");
  }
  for (Index i = begin; i < end; ++i) {
    const Index token = batch.tokens[i], label = batch.labels[i];
    if (token < 0 || token >= limits.tokens || (label != ignored_label && (label < 0 || label >= limits.labels))) {
      throw Error("token " + std::to_string(token) + " with label " + std::to_string(label) + " at position " +
                      std::to_string(i) + ", but the model knows " + std::to_string(limits.tokens) + " tokens",
                  "tokens are in [0, vocab); a label of -100 carries no loss");
    }
  }
}

/// Tokens that carry a loss, in a batch that keeps its limits.
inline Index labelled_tokens(const TokenBatch& batch) {
  const auto labels = batch.labels.begin();
  return std::count_if(labels + batch.offsets.front(), labels + batch.offsets.back(),
                       [](std::int32_t label) { return label != ignored_label; });
}

/// One sequence without labels.
inline TokenBatch unlabelled(std::span<const std::int32_t> tokens) {
  return {{tokens.begin(), tokens.end()},
          std::vector<std::int32_t>(tokens.size(), ignored_label),
          {0, static_cast<Index>(tokens.size())}};
}

}  // namespace simplx
