// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/generate/stream_sequences.hpp
/// The sequences of a stream, here or on a GPU: how many tokens each has, and how new ones are divided into chunks. A
/// chunk has many tokens of one sequence, or one token of each of several.

#include <simplx/generate/logits_model.hpp>
#include <simplx/generate/streamed.hpp>

#include <algorithm>
#include <concepts>
#include <span>
#include <string>
#include <vector>

namespace simplx::inline SIMPLX_TARGET::detail {

/// The sequences that the tokens of a chunk go on, equally many of each.
struct ChunkSequences {
  std::span<const Index> numbers;  ///< of the stream's sequences
  std::span<const Index> past;     ///< how many tokens each had before
  Segments segments;               ///< where its new ones begin
};

/// `Stream` has evaluate(tokens, sequences, chunk), which gives the logits of the last token of each sequence of the
/// chunk: (those, vocab).
template <class Stream, class Net>
class StreamSequences {
 public:
  using S = typename Net::S;

  /// Logits of the last of these tokens, (vocab), valid until the next call.
  ///
  /// Errors  throws Error if the stream has several sequences, if there is no token, one is out of range, or they do
  ///         not fit the context; then nothing has changed
  /// Cost    the products of these rows alone, but logits of the last chunk only, and attention to all before them;
  ///         threads share these; no allocation
  std::span<const S> feed(std::span<const std::int32_t> tokens) {
    if (sequences() > 1) {
      throw Error("these tokens are of one sequence, and the stream has " + std::to_string(sequences()),
                  "feed a TokenBatch of as many sequences; one without new tokens is empty");
    }
    check_feed<Net>(tokens, size(), capacity_);
    return in_chunks(0, tokens);
  }
  /// Logits of the last token of each sequence that has new ones, (those sequences, vocab), valid until the next call.
  /// Sequence s of the batch goes on sequence s of the stream; one that waits is empty. Labels are not read.
  ///
  /// Errors  throws Error for another number of sequences, if none has a token, one is out of range, or they do not fit
  ///         a context; then nothing has changed
  /// Cost    sequences of one new token go on together: products read the weights once for all of them. Those of more
  ///         go on one by one, as above; then logits are copied once more, to memory that is allocated when so many
  ///         are first
  std::span<const S> feed(const std::same_as<TokenBatch> auto& batch) {
    const Index fed = check_feed<Net>(batch, sizes_, capacity_), vocab = Net::vocab();
    numbers_.clear(), single_.clear();
    each_fed(batch, [&](Index, Index sequence, std::span<const std::int32_t> tokens) {
      if (tokens.size() == 1) numbers_.push_back(sequence), single_.push_back(tokens[0]);
    });
    const bool all_single = std::ssize(single_) == fed;
    if (!all_single) results_.resize(static_cast<std::size_t>(fed * vocab));
    std::span<const S> together;
    if (!single_.empty()) together = advance(single_, Chunk::last);
    if (all_single) return together;

    const auto keep = [&](Index place, const S* logits) {
      std::copy_n(logits, vocab, results_.data() + place * vocab);
    };
    Index row = 0;  // of the single tokens, before the logits of others take their place
    each_fed(batch, [&](Index place, Index, std::span<const std::int32_t> tokens) {
      if (tokens.size() == 1) keep(place, together.data() + row++ * vocab);
    });
    each_fed(batch, [&](Index place, Index sequence, std::span<const std::int32_t> tokens) {
      if (tokens.size() > 1) keep(place, in_chunks(sequence, tokens).data());
    });
    return results_;
  }

  Index sequences() const { return std::ssize(sizes_); }
  /// Tokens of a sequence.
  ///
  /// Errors  throws Error if the stream has none of that number
  Index size(Index sequence = 0) const { return sizes_[checked(sequence)]; }
  /// Tokens that a sequence may have.
  Index capacity() const { return capacity_; }

 protected:
  /// Errors  throws Error if the context is no token, or longer than the model's positions; for less than one sequence
  StreamSequences(const StreamOptions& options, Index usual_chunk)
      : capacity_(checked_context(options.context.value_or(Net::usual_context()), Net::longest_sequence())),
        chunk_(std::min(std::max<Index>(options.chunk.value_or(usual_chunk), 1), capacity_)),
        sizes_(at_least_one(options.sequences)) {
    for (std::vector<Index>* of_chunk : {&numbers_, &past_, &offsets_}) of_chunk->reserve(sizes_.size() + 1);
    single_.reserve(sizes_.size());
  }

  /// Tokens of a chunk at most: of one sequence, or one of each.
  Rows room() const {
    return {.tokens = std::max(chunk_, sequences()), .sequences = sequences(), .longest_sequence = chunk_};
  }
  StreamRoom stream_room() const { return {.rows = chunk_, .sequences = sequences(), .context = capacity_}; }

  std::size_t checked(Index sequence) const {
    if (sequence >= 0 && sequence < sequences()) return static_cast<std::size_t>(sequence);
    throw Error("sequence " + std::to_string(sequence) + " of a stream that has " + std::to_string(sequences()),
                "they count from 0");
  }
  void set_size(Index sequence, Index tokens) { sizes_[checked(sequence)] = tokens; }

 private:
  static std::size_t at_least_one(Index sequences) {
    if (sequences >= 1) return static_cast<std::size_t>(sequences);
    throw Error("a stream of " + std::to_string(sequences) + " sequences", "it has at least one");
  }
  /// Calls visit(place, sequence, tokens) for each sequence that has new tokens, whose places count from 0.
  template <class Visit>
  static void each_fed(const TokenBatch& batch, Visit visit) {
    Index place = 0;
    for (Index s = 0; s < batch.sequences(); ++s) {
      const auto tokens = sequence_of(batch, s);
      if (!tokens.empty()) visit(place++, s, tokens);
    }
  }

  std::span<const S> in_chunks(Index sequence, std::span<const std::int32_t> tokens) {
    numbers_.assign(1, sequence);
    std::span<const S> logits;
    const auto count = static_cast<Index>(tokens.size());
    for (Index begin = 0; begin < count; begin += chunk_) {
      const Index rows = std::min(chunk_, count - begin);
      logits = advance(tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(rows)),
                        begin + rows == count ? Chunk::last : Chunk::between);
    }
    return logits;
  }
  /// Evaluates a chunk of tokens of the sequences in numbers_, equally many of each.
  std::span<const S> advance(std::span<const std::int32_t> tokens, Chunk chunk) {
    const Index rows = std::ssize(tokens) / std::ssize(numbers_);
    past_.clear(), offsets_.assign(1, 0);
    for (const Index number : numbers_) {
      past_.push_back(sizes_[static_cast<std::size_t>(number)]);
      offsets_.push_back(offsets_.back() + rows);
    }
    const ChunkSequences of_chunk{numbers_, past_, {offsets_.data(), std::ssize(numbers_)}};
    const std::span<const S> logits = static_cast<Stream&>(*this).evaluate(tokens, of_chunk, chunk);
    for (const Index number : numbers_) sizes_[static_cast<std::size_t>(number)] += rows;
    return logits;
  }

  Index capacity_, chunk_;
  std::vector<Index> sizes_;                     ///< of all sequences, in tokens
  std::vector<Index> numbers_, past_, offsets_;  ///< of those in the chunk
  std::vector<std::int32_t> single_;
  std::vector<S> results_;
};

}  // namespace simplx::detail
