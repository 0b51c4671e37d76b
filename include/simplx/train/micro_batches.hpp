// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/micro_batches.hpp
/// MicroBatches: which sequences of a batch a thread evaluates at once.
///
/// A sequence by itself stays in cache, and a product of its rows is fast from 64 rows on. With fewer, weights are
/// fetched for little work: 64 sequences of 16 tokens take 1.6 to 1.8 times as long as 16 of 64, 256 of 4 four times.
/// So sequences that follow one another are a micro-batch while they have at most 64 tokens. Where a step has few of
/// them they have less, which leaves work for sixteen threads. All of that is read off the options and the batch, so
/// that threads change no bits.

#include <simplx/train/batch.hpp>
#include <simplx/train/trainer_options.hpp>

#include <algorithm>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// The sequences of a batch in runs, each of them one micro-batch.
class MicroBatches {
 public:
  /// For batches of a trainer with these options; `together`: whether its model may see several sequences at once.
  explicit MicroBatches(const TrainerOptions& options, bool together)
      : most_tokens_(together ? std::min<Index>(64, options.sequences_per_step * options.context / 16) : 0) {
    begins_.reserve(static_cast<std::size_t>(options.batch) + 1);
  }

  /// Rows of the largest micro-batch, for sequences up to `context`.
  Rows capacity(Index context) const {
    return {.tokens = std::max(context, most_tokens_), .sequences = std::max<Index>(most_tokens_, 1),
            .longest_sequence = context};
  }

  /// Divides a batch of at most as many sequences as the options say.
  void divide(const TokenBatch& batch) {
    begins_.clear();
    Index tokens = 0;
    for (Index s = 0; s < batch.sequences(); ++s) {
      const auto place = static_cast<std::size_t>(s);
      const Index length = batch.offsets[place + 1] - batch.offsets[place];
      if (begins_.empty() || tokens + length > most_tokens_) begins_.push_back(s), tokens = 0;
      tokens += length;
    }
    begins_.push_back(batch.sequences());
  }

  Index count() const { return std::ssize(begins_) - 1; }
  /// The first sequence of a micro-batch; that of the next one is the end.
  Index begin(Index number) const { return begins_[static_cast<std::size_t>(number)]; }

 private:
  Index most_tokens_;
  std::vector<Index> begins_;
};

}  // namespace simplx
