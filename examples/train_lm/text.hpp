// SPDX-License-Identifier: MIT
#pragma once

// The text to learn from: which files, in which windows.

#include "options.hpp"

#include <simplx/io/corpus.hpp>
#include <simplx/train/batches.hpp>

#include <string>

namespace train_lm {

/// Text, or tokens that tools/prepare made of it, cut into windows: shuffled ones to learn from, and others held out.
struct Text {
  static constexpr simplx::Index held_out_batch = 8;  ///< sequences of a batch that is only evaluated

  std::vector<std::filesystem::path> paths;
  simplx::TokenCorpus corpus;
  simplx::Batches training, held_out;

  /// Reads the text that the options name.
  explicit Text(const Options& options);
  Text(const Text&) = delete;  // the batches point to the corpus

  /// Held-out loss in nats per token, over windows spread evenly over the held-out text.
  double validate(AnyTrainer& trainer, simplx::TokenBatch& batch) const;
};

}  // namespace train_lm
