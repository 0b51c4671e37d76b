// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/batches.hpp
/// Batches of windows of a corpus, in an order that a seed determines.
///
/// Documents are cut into windows of context + 1 tokens that do not overlap but for the token that is both the
/// last label of one and the first token of the next; partial tails are dropped [He & Hofmann's data loader].
/// Each epoch visits all windows in an order of its own. The tokens stay where they are: text in memory, or a file.

#include <simplx/core/error.hpp>
#include <simplx/train/batch.hpp>
#include <simplx/train/text.hpp>

#include <iterator>
#include <limits>
#include <utility>

namespace simplx::inline SIMPLX_TARGET {

/// Room for that many sequences.
///
/// Errors  throws Error for a negative number
inline TokenBatch make_batch(Index sequences, Index context) {
  if (sequences < 0 || context < 0) {
    throw Error("a batch has no room for " + std::to_string(sequences) + " sequences of " + std::to_string(context) +
                    " tokens", "both are numbers from 0 on");
  }
  TokenBatch batch;
  if (context > 0 && sequences > std::numeric_limits<Index>::max() / context) {
    throw Error("a batch of " + std::to_string(sequences) + " sequences of " + std::to_string(context) + " tokens",
                "no memory holds as many");
  }
  batch.tokens.reserve(static_cast<std::size_t>(sequences * context));
  batch.labels.reserve(static_cast<std::size_t>(sequences * context));
  batch.offsets.reserve(static_cast<std::size_t>(sequences + 1));
  return batch;
}

/// Where in the data a run is: integers that a checkpoint keeps.
struct BatchesState {
  std::uint64_t epoch = 0, window = 0;               ///< the next window, counted in the order of its epoch
  std::uint64_t windows = 0, context = 0, seed = 0;  ///< what gives the order; another run's order is another one

  bool operator==(const BatchesState&) const = default;
};

/// How a text is cut into windows, and how many are a batch.
struct BatchesOptions {
  Index context = 0;       ///< tokens of a window: of a trainer `options().context`
  Index sequences = 1;     ///< windows of a batch
  std::uint64_t seed = 0;  ///< of their order
};

/// Windows of documents, each once an epoch, in an order that the seed and the number of the epoch determine.
class Batches {
 public:
  /// Windows of these documents; what holds the tokens must outlive this object.
  ///
  /// Errors  throws Error if no document is longer than the context, one does not lie within the tokens, there are
  ///         more than 2^32 windows, or a window or a batch is less than one
  /// Cost    four bytes for each window, whatever its context
  Batches(TokenView tokens, const std::vector<Document>& documents, const BatchesOptions& options)
      : tokens_(tokens), context_(options.context), sequences_(options.sequences), seed_(options.seed) {
    const Index context = options.context;
    if (context < 1 || context > std::numeric_limits<std::int32_t>::max()) {
      throw Error("the context of the windows is " + std::to_string(context),
                  "give the trainer's: options().context is the model's own where none was given");
    }
    if (sequences_ < 1) {
      throw Error("a batch is of " + std::to_string(sequences_) + " sequences", "it must be at least 1");
    }
    for (const Document& document : documents) {
      if (document.begin < 0 || document.end < document.begin || document.end > tokens.size()) {
        throw Error("a document is from token " + std::to_string(document.begin) + " to " +
                        std::to_string(document.end) + " of " + std::to_string(tokens.size()),
                    "are these the documents of other tokens?");
      }
      const Index inside = (document.end - document.begin - 1) / context;
      if (inside < 1) continue;
      documents_.push_back({windows_, document.begin});
      windows_ += inside;
    }
    if (windows_ == 0) {
      throw Error("the text is too short: no document has " + std::to_string(context + 1) + " tokens",
                  "give more text, or a shorter context");
    }
    if (windows_ > Index{1} << 32) {
      throw Error("the text is too long: " + std::to_string(windows_) + " windows",
                  "choose a longer context, or a part of the text");
    }
    order_.resize(static_cast<std::size_t>(windows_));
  }
  Batches(const Corpus& corpus, const std::vector<Document>& documents, const BatchesOptions& options)
      : Batches(corpus.tokens(), documents, options) {}
  Batches(Corpus&&, const std::vector<Document>&, const BatchesOptions&) = delete;  // it would be gone

  Index windows() const { return windows_; }

  /// Fills `batch` with the next sequences of the shuffled epochs; allocates nothing if make_batch gave it room.
  void next(TokenBatch& batch) {
    clear(batch);
    for (Index s = 0; s < sequences_; ++s, ++position_) {
      const Index epoch = position_ / windows(), place = position_ % windows();
      if (epoch != shuffled_epoch_) shuffle(epoch);
      append(order_[static_cast<std::size_t>(place)], batch);
    }
  }

  /// Fills `batch` with windows [first, first + sequences) in the order of the text, fewer at the end.
  ///
  /// Errors  throws Error for a negative number
  void at(Index first, TokenBatch& batch) const {
    check_place("window", first);
    clear(batch);
    for (Index w = first, end = windows() - first < sequences_ ? windows() : first + sequences_; w < end; ++w) {
      append(w, batch);
    }
  }

  /// Sequences that `next` has handed out; seek continues there.
  ///
  /// Errors  seek throws Error for a negative number, and for one that next could not count on from
  Index position() const { return position_; }
  void seek(Index position) {
    check_place("position", position);
    if (position > std::numeric_limits<Index>::max() - sequences_) {
      throw Error("position " + std::to_string(position) + " of the data", "no run gets so far");
    }
    position_ = position;
  }

  /// Where `next` goes on; the number of sequences in a batch is no part of it.
  BatchesState state() const {
    const auto count = [](Index number) { return static_cast<std::uint64_t>(number); };
    return {count(position_ / windows()), count(position_ % windows()), count(windows()), count(context_), seed_};
  }
  /// Goes on where another object stood: the next batches are the ones that it would have handed out.
  ///
  /// Errors  throws Error if the state is of data with more or fewer windows, of another context or another seed; then
  ///         nothing has changed
  void restore(const BatchesState& state) {
    const auto same = [](const char* what, std::uint64_t saved, std::uint64_t here) {
      if (saved == here) return;
      throw Error("the position in the data was saved with " + std::string(what) + " " + std::to_string(saved) +
                      ", here it is " + std::to_string(here),
                  "resume with the data, the context and the seed that the run began with");
    };
    const BatchesState here = this->state();
    same("number of windows", state.windows, here.windows);
    same("context", state.context, here.context);
    same("seed", state.seed, here.seed);
    const auto last = static_cast<std::uint64_t>(std::numeric_limits<Index>::max()) / here.windows - 1;
    if (state.window >= here.windows || state.epoch > last) {
      throw Error("window " + std::to_string(state.window) + " of epoch " + std::to_string(state.epoch) +
                      " is no position in " + std::to_string(here.windows) + " windows",
                  "was the checkpoint changed by hand?");
    }
    position_ = static_cast<Index>(state.epoch * here.windows + state.window);
  }

 private:
  static void check_place(const std::string& what, Index number) {
    if (number < 0) throw Error(what + " " + std::to_string(number) + " of the data", "they count from 0");
  }
  static void clear(TokenBatch& batch) {
    batch.tokens.clear();
    batch.labels.clear();
    batch.offsets.assign(1, 0);
  }
  void append(Index window, TokenBatch& batch) const {
    const auto after = std::upper_bound(documents_.begin(), documents_.end(), window,
                                         [](Index w, const Windows& document) { return w < document.first; });
    const Windows& document = *std::prev(after);
    const Index at = document.begin + (window - document.first) * context_;
    for (Index i = 0; i < context_; ++i) {
      batch.tokens.push_back(tokens_[at + i]);
      batch.labels.push_back(tokens_[at + i + 1]);
    }
    batch.offsets.push_back(static_cast<Index>(batch.tokens.size()));
  }
  /// Fisher and Yates, with numbers keyed by seed and epoch.
  void shuffle(Index epoch) {
    const std::uint64_t key = key_of(seed_, "epoch") + static_cast<std::uint64_t>(epoch);
    for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = static_cast<std::uint32_t>(i);
    for (std::size_t i = order_.size() - 1; i > 0; --i) std::swap(order_[i], order_[bits(key, i) % (i + 1)]);
    shuffled_epoch_ = epoch;
  }

  /// The windows of a document: the number of its first, and the token where that begins.
  struct Windows {
    Index first, begin;
  };

  TokenView tokens_;
  Index context_, sequences_, windows_ = 0;
  std::uint64_t seed_;
  std::vector<Windows> documents_;  ///< those with windows
  std::vector<std::uint32_t> order_;
  Index position_ = 0, shuffled_epoch_ = -1;
};

}  // namespace simplx
