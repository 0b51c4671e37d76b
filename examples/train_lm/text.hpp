// SPDX-License-Identifier: MIT
#pragma once

// The text to learn from: which files, in which windows.

#include "options.hpp"

#include <simplx/io/corpus.hpp>
#include <simplx/train/batches.hpp>

#include <string>

namespace train_lm {

/// Text, or tokens that tools/prepare made of it, cut into windows: shuffled ones to learn from, and others held out.
/// Tokens of which nothing is known are bytes to models of 256.
struct Text {
  static constexpr simplx::Index held_out_batch = 8;  ///< sequences of a batch that is only evaluated

  std::vector<std::filesystem::path> paths;
  simplx::TokenCorpus corpus;
  bool of_bytes;  ///< each token is one
  simplx::Batches training, held_out;

  /// Reads the text that the options name.
  ///
  /// Errors  throws Error for what open_corpus refuses, tokens that the models do not know, and too little text
  explicit Text(const Options& options);
  Text(const Text&) = delete;  // the batches point to the corpus

  /// Held-out loss in nats per token, over windows spread evenly over the held-out text.
  double validate(AnyTrainer& trainer, simplx::TokenBatch& batch) const;
  /// Of the same windows the bytes that a label has, by which losses of other vocabularies can be compared; a special
  /// token has none. Not a number where the tokens' bytes are not known.
  double bytes_per_token(simplx::TokenBatch& batch) const;
  const char* token_name() const { return of_bytes ? "byte" : "token"; }

 private:
  template <class Look>
  void each_validated(simplx::TokenBatch& batch, const Look& look) const;
};

}  // namespace train_lm
