// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/micro_batches.hpp
/// MicroBatches: which sequences of a batch a thread evaluates at once. MicroBatchWorkspace: where it does.
///
/// A sequence by itself stays in cache, and a product of its rows is fast from 64 rows on. With fewer, weights are
/// fetched for little work: 64 sequences of 16 tokens take 1.6 to 1.8 times as long as 16 of 64, 256 of 4 four times.
/// So sequences that follow one another are a micro-batch while they have at most 64 tokens, and, in training, at most
/// a sixteenth of the batch's, which leaves work for as many threads. All of that is read off the batch: neither
/// threads nor limits change any bits. A Learner divides its loss by the same rule (differentiate/divided_loss.hpp).

#include <simplx/cpu/workspace.hpp>
#include <simplx/train/batch.hpp>

#include <algorithm>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

inline constexpr Index micro_batch_rows = 64;  ///< at most, but for one longer sequence
/// Tokens of a micro-batch, at most, where these many are to make so many micro-batches at least.
inline Index micro_batch_tokens(Index all, Index shares) { return std::min(micro_batch_rows, all / shares); }

/// Where micro-batches of at most so many tokens, or of one longer sequence, begin, and the last one ends.
inline void divide_sequences(const Segments& sequences, Index most_tokens, std::vector<Index>& begins) {
  begins.clear();
  for (Index s = 0; s < sequences.count; ++s) {
    const bool joins = !begins.empty() && s - begins.back() < micro_batch_rows &&  // those of a Learner may be empty
                       sequences.offsets[s + 1] - sequences.offsets[begins.back()] <= most_tokens;
    if (!joins) begins.push_back(s);
  }
  begins.push_back(sequences.count);
}

}  // namespace detail

/// The sequences of a batch in runs, each of them one micro-batch.
class MicroBatches {
 public:
  /// Room for batches of so many sequences of so many tokens at most.
  ///
  /// together  whether the model may see several sequences at once (detail::keeps_sequences_apart)
  /// shares    a batch of short sequences is cut into at least so many micro-batches, so that threads have work; with 1
  ///           the 64 tokens alone limit one
  MicroBatches(Index sequences, Index context, bool together, Index shares = 16)
      : context_(context),
        shares_(shares),
        most_tokens_(together ? detail::micro_batch_tokens(sequences * context, shares) : 0) {
    begins_.reserve(static_cast<std::size_t>(sequences) + 1);
  }

  /// Rows of the largest micro-batch.
  Rows capacity() const {
    return {.tokens = std::max(context_, most_tokens_), .sequences = std::max<Index>(most_tokens_, 1),
            .longest_sequence = context_};
  }

  /// Divides a batch of at most as many sequences.
  void divide(const TokenBatch& batch) {
    const Index all = batch.offsets.back() - batch.offsets.front();
    detail::divide_sequences(batch.segments(), std::min(most_tokens_, detail::micro_batch_tokens(all, shares_)),
                             begins_);
  }

  Index count() const { return std::ssize(begins_) - 1; }
  /// The first sequence of a micro-batch; that of the next one is the end.
  Index begin(Index number) const { return begins_[static_cast<std::size_t>(number)]; }

 private:
  Index context_, shares_, most_tokens_;
  std::vector<Index> begins_;
};

/// The arena of one thread, for one micro-batch at a time.
template <class G, class Backend>
class MicroBatchWorkspace : public detail::Workspace<G, Backend> {
 public:
  using S = typename Backend::Scalar;

  explicit MicroBatchWorkspace(const Rows& capacity, detail::Seeds seeds = detail::Seeds::room)
      : detail::Workspace<G, Backend>(capacity, seeds), offsets_(static_cast<std::size_t>(capacity.sequences) + 1) {}

  /// For sequences first .. last of these.
  Context<S> context_of(const Segments& all, Index first, Index last) {
    const Index* const begins = all.offsets + first;
    Rows rows{.tokens = begins[last - first] - begins[0], .sequences = last - first};
    for (Index s = 0; s < rows.sequences; ++s) {
      offsets_[static_cast<std::size_t>(s) + 1] = begins[s + 1] - begins[0];
      rows.longest_sequence = std::max(rows.longest_sequence, begins[s + 1] - begins[s]);
    }
    return this->context(rows, {offsets_.data(), rows.sequences}, rows.longest_sequence);
  }

 private:
  std::vector<Index> offsets_;  // of its sequences, from 0
};

}  // namespace simplx
