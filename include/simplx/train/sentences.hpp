// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/sentences.hpp
/// Labelled sequences of a classifier, of one sentence or of two:
///
///     first a separator,    first a separator b separator
///
/// The model reads `first`. Sequences lie one after the other in a batch, without padding; rows that were padded are
/// handed over through `without_padding`.

#include <simplx/train/batch.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// The tokens around sentences, and how many a sequence may have.
struct SentenceFormat {
  std::int32_t first, separator;  ///< tokens: [CLS] and [SEP] of BERT
  Index context;                  ///< tokens of a sequence at most
};

/// A row without the padding at its end.
inline std::span<const std::int32_t> without_padding(std::span<const std::int32_t> row, std::int32_t padding) {
  while (!row.empty() && row.back() == padding) row = row.first(row.size() - 1);
  return row;
}

namespace detail {
/// Starts with `first`, then each sentence and a separator.
inline void append_sequence(TokenBatch& batch, const SentenceFormat& format, std::int32_t label,
                            std::initializer_list<std::span<const std::int32_t>> sentences) {
  if (batch.offsets.empty()) batch.offsets.push_back(0);
  batch.tokens.push_back(format.first);
  for (const auto sentence : sentences) {
    batch.tokens.insert(batch.tokens.end(), sentence.begin(), sentence.end());
    batch.tokens.push_back(format.separator);
  }
  batch.offsets.push_back(std::ssize(batch.tokens));
  batch.labels.push_back(label);
}

[[gnu::cold]] inline void check_format(const SentenceFormat& format, Index least) {
  if (format.context >= least) return;
  throw Error("a context of " + std::to_string(format.context) + " tokens",
              "the tokens around the sentences alone take " + std::to_string(least));
}
}  // namespace detail

/// Adds a sequence of one sentence, cut where the context ends, with its class.
///
/// Errors  throws Error for a context that has no room for `first` and the separators
inline void append_sentence(TokenBatch& batch, const SentenceFormat& format, std::span<const std::int32_t> a,
                            std::int32_t label) {
  detail::check_format(format, 2);
  const std::size_t room = static_cast<std::size_t>(format.context - 2);
  detail::append_sequence(batch, format, label, {a.first(std::min(a.size(), room))});
}

/// The same of two sentences. The longer one is cut first: the shorter loses nothing while it has no more than half of
/// the room.
inline void append_pair(TokenBatch& batch, const SentenceFormat& format, std::span<const std::int32_t> a,
                        std::span<const std::int32_t> b, std::int32_t label) {
  detail::check_format(format, 3);
  const std::size_t room = static_cast<std::size_t>(format.context - 3), half = room / 2;
  std::size_t first = a.size(), second = b.size();
  if (first + second > room) {
    if (first <= second) {
      first = std::min(first, half), second = room - first;
    } else {
      second = std::min(second, half), first = room - second;
    }
  }
  detail::append_sequence(batch, format, label, {a.first(first), b.first(second)});
}

}  // namespace simplx
