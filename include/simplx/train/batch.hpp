// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/batch.hpp
/// TokenBatch: packed sequences of tokens with their labels, one for each token or one for each sequence.

#include <simplx/core/error.hpp>
#include <simplx/core/context.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// Sequence s occupies [offsets[s], offsets[s + 1]) of both arrays: {0, 3, 5} is a sequence of 3 tokens and one of 2.
/// Tokens before the first offset and after the last are no part of the batch. Where a model has one label for each
/// sequence, labels[s] is that of sequence s. A label of -100 carries no loss.
struct TokenBatch {
  std::vector<std::int32_t> tokens{}, labels{};
  std::vector<Index> offsets{};

  Index sequences() const { return std::max<Index>(static_cast<Index>(offsets.size()) - 1, 0); }
  /// Where they are, as evaluations take it; valid while the offsets stay.
  Segments segments() const { return {offsets.data(), sequences()}; }
};

/// What a batch must fit.
struct BatchLimits {
  Index sequences, context;  ///< at most, each
  Index tokens, labels;      ///< tokens are in [0, tokens), labels in [0, labels)
  Axis labelled = Axis::tokens;  ///< what has a label: tokens or sequences
  bool ignores = true;           ///< whether a label may be -100
};

/// Errors  throws Error if a sequence of a batch is not among its tokens
inline void check_offsets(const TokenBatch& batch) {
  Index before = 0;
  for (std::size_t i = 0; i < batch.offsets.size(); before = batch.offsets[i++]) {
    const Index offset = batch.offsets[i];
    if (before <= offset && offset <= std::ssize(batch.tokens)) continue;
    throw Error("offset " + std::to_string(i) + " of the batch is " + std::to_string(offset) +
                    (i ? " after " + std::to_string(before) : "") + ", of " + std::to_string(batch.tokens.size()) +
                    " tokens",
                "offsets never fall, and lie between 0 and the number of tokens");
  }
}

/// Errors  throws Error unless a batch has a label for each token, or for each sequence where these have them; none but
///         tokens after the last sequence may lack it, or have it
inline void check_labels(const TokenBatch& batch, Axis labelled) {
  const bool by_sequence = labelled == Axis::sequences;
  const Index labels = std::ssize(batch.labels), needed = by_sequence ? batch.sequences() : batch.offsets.back();
  const Index most = by_sequence ? needed : std::ssize(batch.tokens);
  if (labels >= needed && labels <= most) return;
  const std::string counted = std::to_string(std::clamp(labels, needed, most));
  throw Error(std::to_string(labels) + " labels for " + counted + (by_sequence ? " sequences" : " tokens"),
              by_sequence ? "every sequence has one label" : "every token has one label; -100 carries no loss");
}

/// Errors  throws Error that says which limit a batch does not keep
inline void check_batch(const TokenBatch& batch, const BatchLimits& limits) {
  if (batch.sequences() < 1) {
    throw Error("the batch has no sequences",
                "offsets are where sequences begin and the last one ends: {0, 3, 5} is one of 3 and one of 2 tokens");
  }
  if (batch.sequences() > limits.sequences) {
    throw Error("a batch of " + std::to_string(batch.sequences()) + " sequences for a trainer made for at most " +
                    std::to_string(limits.sequences),
                "raise TrainerOptions::batch");
  }
  check_offsets(batch);
  const Index* const offsets = batch.offsets.data();
  for (Index b = 0; b < batch.sequences(); ++b) {
    const Index length = offsets[b + 1] - offsets[b];
    if (length >= 1 && length <= limits.context) continue;
    throw Error("a sequence of " + std::to_string(length) + " tokens for a context of " +
                    std::to_string(limits.context),
                "sequences have between one token and the context");
  }
  check_labels(batch, limits.labelled);
  const bool by_sequence = limits.labelled == Axis::sequences;
  const Index begin = batch.offsets.front(), end = batch.offsets.back();
  const std::int32_t* const tokens = batch.tokens.data();
  for (Index i = begin; i < end; ++i) {
    if (tokens[i] >= 0 && tokens[i] < limits.tokens) continue;
    throw Error("token " + std::to_string(tokens[i]) + " at position " + std::to_string(i) +
                    ", but the model knows " + std::to_string(limits.tokens) + " tokens",
                "tokens are in [0, vocab)");
  }
  const Index first = by_sequence ? 0 : begin, last = by_sequence ? batch.sequences() : end;
  for (Index i = first; i < last; ++i) {
    const Index label = batch.labels.data()[i];
    if ((label == ignored_label && limits.ignores) || (label >= 0 && label < limits.labels)) continue;
    throw Error((by_sequence ? "sequence " : "the token at position ") + std::to_string(i) + " has the label " +
                    std::to_string(label) + ", but the model knows " + std::to_string(limits.labels) + " classes",
                std::string("labels are in [0, classes); ") +
                    (limits.ignores ? "-100 carries no loss" : "the model looks them up in a table without -100"));
  }
}

/// Tokens, or sequences, that carry a loss.
///
/// Errors  throws Error for offsets outside the tokens, or another number of labels
inline Index labelled_rows(const TokenBatch& batch, Axis labelled) {
  if (batch.offsets.empty()) return 0;
  check_offsets(batch);
  check_labels(batch, labelled);
  const bool by_sequence = labelled == Axis::sequences;
  const auto labels = batch.labels.begin();
  const Index begin = by_sequence ? 0 : batch.offsets.front();
  const Index end = by_sequence ? batch.sequences() : batch.offsets.back();
  return end - begin - std::count(labels + begin, labels + end, ignored_label);
}
inline Index labelled_tokens(const TokenBatch& batch) { return labelled_rows(batch, Axis::tokens); }
inline Index labelled_sequences(const TokenBatch& batch) { return labelled_rows(batch, Axis::sequences); }

/// One sequence without labels; each token, or the sequence, has `label` in the place of one.
inline TokenBatch unlabelled(std::span<const std::int32_t> tokens, std::int32_t label = ignored_label,
                             Axis labelled = Axis::tokens) {
  return {{tokens.begin(), tokens.end()},
          std::vector<std::int32_t>(labelled == Axis::sequences ? 1 : tokens.size(), label),
          {0, static_cast<Index>(tokens.size())}};
}

}  // namespace simplx
