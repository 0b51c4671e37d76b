// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/generate/stream_sequences.hpp
/// The sequences of a stream: how many tokens each has, and which of them a chunk is of. A chunk has many tokens of one
/// sequence, or one token of each of several.

#include <simplx/generate/logits_model.hpp>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace simplx::inline SIMPLX_TARGET::detail {

class StreamSequences {
 public:
  /// Errors  throws Error for less than one
  explicit StreamSequences(Index count) : sizes_(at_least_one(count)) {
    for (std::vector<Index>* of_chunk : {&numbers_, &past_, &offsets_}) of_chunk->reserve(sizes_.size() + 1);
    tokens_.reserve(sizes_.size());
  }

  Index count() const { return std::ssize(sizes_); }
  std::span<const Index> sizes() const { return sizes_; }
  /// Tokens of one.
  Index size(Index sequence) const { return sizes_[checked(sequence)]; }
  void copy(Index from, Index to) { sizes_[checked(to)] = sizes_[checked(from)]; }
  void reset(Index sequence) { sizes_[checked(sequence)] = 0; }
  void reset() { std::ranges::fill(sizes_, Index(0)); }

  /// Errors  throws Error if there are several
  void check_one() const {
    if (count() == 1) return;
    throw Error("these tokens are of one sequence, and the stream has " + std::to_string(count()),
                "feed a TokenBatch of as many sequences; one without new tokens is empty");
  }

  /// The next chunk is of this sequence.
  void choose(Index sequence) { numbers_.assign(1, sequence); }
  /// The next chunk is of those that have one token in a batch; returns these tokens.
  std::span<const std::int32_t> choose_single(const TokenBatch& batch) {
    numbers_.clear(), tokens_.clear();
    each_fed(batch, [&](Index, Index sequence, std::span<const std::int32_t> tokens) {
      if (tokens.size() == 1) numbers_.push_back(sequence), tokens_.push_back(tokens[0]);
    });
    return tokens_;
  }
  /// It has so many tokens: says where those of each sequence begin and what came before, until `go_on`.
  void lay_out(Index rows) {
    past_.clear(), offsets_.assign(1, 0);
    for (const Index number : numbers_) {
      past_.push_back(sizes_[static_cast<std::size_t>(number)]);
      offsets_.push_back(offsets_.back() + rows / std::ssize(numbers_));
    }
  }
  /// It was evaluated.
  void go_on() {
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      sizes_[static_cast<std::size_t>(numbers_[i])] += offsets_[i + 1] - offsets_[i];
    }
  }
  // Of the chunk.
  const Index* numbers() const { return numbers_.data(); }
  const Index* past() const { return past_.data(); }
  Segments segments() const { return {offsets_.data(), std::ssize(numbers_)}; }

  /// Calls visit(place, sequence, tokens) for each sequence that has new tokens, whose places count from 0.
  template <class Visit>
  static void each_fed(const TokenBatch& batch, Visit visit) {
    Index place = 0;
    batch.segments().each([&](Index sequence, Index first, Index rows) {
      const auto tokens = std::span(batch.tokens).subspan(static_cast<std::size_t>(first));
      if (rows > 0) visit(place++, sequence, tokens.first(static_cast<std::size_t>(rows)));
    });
  }

 private:
  static std::size_t at_least_one(Index count) {
    if (count >= 1) return static_cast<std::size_t>(count);
    throw Error("a stream of " + std::to_string(count) + " sequences", "it has at least one");
  }
  std::size_t checked(Index sequence) const {
    if (sequence >= 0 && sequence < count()) return static_cast<std::size_t>(sequence);
    throw Error("sequence " + std::to_string(sequence) + " of a stream that has " + std::to_string(count()),
                "they count from 0");
  }

  std::vector<Index> sizes_;
  std::vector<Index> numbers_, past_, offsets_;  ///< of the chunk
  std::vector<std::int32_t> tokens_;
};

}  // namespace simplx::detail
