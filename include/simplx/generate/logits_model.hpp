// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/generate/logits_model.hpp
/// What is known of a model that gives logits, and checked of its tokens, whoever evaluates it: Inference, Stream, here
/// or on a GPU.

#include <simplx/core/inputs.hpp>
#include <simplx/train/batch.hpp>
#include <simplx/train/trained_model.hpp>

#include <algorithm>
#include <optional>
#include <span>
#include <string>

namespace simplx::inline SIMPLX_TARGET {

/// The expressions of a model whose parameters are not trained: nothing is kept for a backward.
template <auto const& model>
struct Untrained {
  using Lowering = AsWritten;
  template <class F>
  static constexpr auto with(F f) {
    const detail::Evaluated evaluated = detail::evaluate(model);
    detail::each_node(evaluated.root, [](Node* node) {
      detail::freeze(node);
      node->wanted = false;
    });
    detail::stop_at_frozen_layers(evaluated.root);
    return f(evaluated.root);
  }
};

struct InferenceOptions {
  std::uint64_t seed = 0;      ///< of the initial values
  int threads = 1;             ///< on a CPU, that evaluate the sequences of a batch, or share the large products of one
  bool initial_values = true;  ///< of the parameters; without they are 0, which takes less time where others are loaded
};
struct StreamOptions {
  std::optional<Index> context{};  ///< tokens at most; of the model, as its positions end or its `context` says
  std::optional<Index> chunk{};    ///< tokens evaluated at once at most
  int threads = 1;                 ///< on a CPU, that share large products, and attention to many tokens
  Index sequences = 1;             ///< that go on at once, each with a context of its own
};

namespace detail {

/// Columns and lengths of the logits of a model of tokens, and whether tokens are its own.
template <auto const& model>
class LogitsModel {
 public:
  using G = Graph<Untrained<model>>;
  static_assert(!G::sound || (G::layout.inputs == 1 && G::input_number("tokens") == 0 && G::layout.outputs == 1),
                "simplx: Inference needs a model of indices(\"tokens\", ...) alone that gives logits alone: of a "
                "decoder it is logits_of<model>");
  static_assert(!G::sound || view_of<G>.looks_up_static_rows(view_of<G>.input_node("tokens")),
                "simplx: Inference knows tokens by the rows of the tables that they look up, and here these are run-"
                "time rows, of which it evaluates some at a time: give gather a weight, or take Function");

  /// Columns of the logits: tokens, or classes.
  static constexpr Index vocab() { return result().cols; }
  /// Tokens of the longest sequence that the model's positions allow.
  static constexpr Index longest_sequence() { return view_of<G>.longest; }
  /// The same, or the model's `context` if its positions do not end; 0 if it has none.
  static constexpr Index usual_context() { return simplx::usual_context<model>(longest_sequence()); }

  /// Errors  throws Error if a token is not one of the model's
  static void check(std::span<const std::int32_t> tokens) {
    for (const std::int32_t token : tokens) {
      if (token >= 0 && token < known()) continue;
      throw Error("token " + std::to_string(token) + ", but the model knows " + std::to_string(known()),
                  "tokens are in [0, vocab)");
    }
  }

 protected:
  /// Whether several sequences can be evaluated at once: each has logits of its own, whatever the others are.
  static constexpr bool together() { return !result().is_fixed() && keeps_sequences_apart<G>(); }

  /// Of one sequence.
  static std::size_t logits_of_all(std::span<const std::int32_t> tokens) {
    const Rows one{.tokens = static_cast<Index>(tokens.size()), .sequences = 1};
    return static_cast<std::size_t>(one.count(result()) * result().cols);
  }
  /// Where those of a sequence of a batch begin; of the number of sequences all of them.
  static std::size_t logits_before(const TokenBatch& batch, Index sequence) {
    const Rows rows{.tokens = batch.offsets[static_cast<std::size_t>(sequence)] - batch.offsets.front(),
                    .sequences = sequence};
    const Index count = result().is_fixed() ? sequence * result().rows : rows.count(result());
    return static_cast<std::size_t>(count * result().cols);
  }
  /// Errors  throws Error if so many logits, of so many tokens, do not fill the room
  static void check_room(Index tokens, std::size_t logits, std::size_t room) {
    if (room == logits) return;
    throw Error("room for " + std::to_string(room) + " logits of " + std::to_string(tokens) + " tokens",
                "give room for the " + std::to_string(logits) + " that they have");
  }
  /// The length of a sequence.
  ///
  /// Errors  throws Error if there is no token, one is not the model's, or the positions end before
  static Index checked_length(std::span<const std::int32_t> tokens) {
    const auto length = static_cast<Index>(tokens.size());
    if (length == 0) throw Error("there is no token to evaluate", "begin with at least one");
    check(tokens);
    check_length("a sequence", length, longest_sequence());
    return length;
  }
  /// The length of the longest sequence of a batch.
  ///
  /// Errors  throws Error if there is no sequence, one has no token or ends beyond the positions or the tokens, or a
  ///         token is not the model's
  static Index checked_lengths(const TokenBatch& batch) {
    if (batch.sequences() < 1) throw Error("the batch has no sequences", "offsets of one of 3 tokens are {0, 3}");
    check_offsets(batch);
    Index longest = 0;
    for (std::size_t s = 1; s < batch.offsets.size(); ++s) {
      const Index length = batch.offsets[s] - batch.offsets[s - 1];
      if (length == 0) {
        throw Error("sequence " + std::to_string(s - 1) + " of the batch has no token", "begin with at least one");
      }
      longest = std::max(longest, length);
    }
    check_length("a sequence", longest, longest_sequence());
    check(tokens_of(batch));
    return longest;
  }
  /// Those of its sequences.
  static std::span<const std::int32_t> tokens_of(const TokenBatch& batch) {
    const Index begin = batch.offsets.front(), end = batch.offsets.back();
    return {batch.tokens.data() + begin, static_cast<std::size_t>(end - begin)};
  }
  /// What to keep room for beside what there is: somewhat longer sequences will come.
  static Rows room_for(const Rows& rows, const Rows& before) {
    const Index longest = std::max(std::min(longest_sequence(), round_up(rows.longest(), 128)), before.longest());
    return {.tokens = std::max(std::max(rows.tokens, before.tokens), longest),
            .sequences = std::max(rows.sequences, before.sequences),
            .longest_sequence = longest};
  }

 private:
  static constexpr Shape result() { return G::table.info[view_of<G>.result_node(0)].shape; }
  /// Tokens are in [0, known()).
  static constexpr Index known() { return view_of<G>.index_bound(view_of<G>.input_node("tokens")); }
};

/// The tokens of a sequence of a batch.
inline std::span<const std::int32_t> sequence_of(const TokenBatch& batch, Index sequence) {
  const auto at = static_cast<std::size_t>(sequence);
  const Index begin = batch.offsets[at], end = batch.offsets[at + 1];
  return {batch.tokens.data() + begin, static_cast<std::size_t>(end - begin)};
}

/// What whoever evaluates token by token asks of further tokens.
///
/// Errors  throws Error if there is no token, one is not the model's, or they do not fit a context that has `size`; of
///         several sequences it says which
template <class Net>
void check_feed(std::span<const std::int32_t> tokens, Index size, Index capacity, Index sequence = -1) {
  const auto count = static_cast<Index>(tokens.size());
  if (count == 0) throw Error("there is no token to evaluate", "begin with at least one");
  Net::check(tokens);
  if (count > capacity - size) {
    const std::string whose = sequence < 0 ? "" : "sequence " + std::to_string(sequence) + ": ";
    throw Error(whose + "the context is full: " + std::to_string(size) + " tokens and " + std::to_string(count) +
                    " more, of " + std::to_string(capacity),
                "reset() and feed the last tokens again");
  }
}
/// Of those of several sequences that have so many each; some may have no new ones, but not all. Returns how many have.
///
/// Errors  throws Error also for another number of sequences, or offsets that are none
template <class Net>
Index check_feed(const TokenBatch& batch, std::span<const Index> sizes, Index capacity) {
  if (batch.sequences() != std::ssize(sizes)) {
    throw Error("a batch of " + std::to_string(batch.sequences()) + " sequences for a stream of " +
                    std::to_string(sizes.size()),
                "a sequence without new tokens is an empty one");
  }
  check_offsets(batch);
  Index fed = 0;
  for (Index s = 0; s < batch.sequences(); ++s) {
    const auto tokens = sequence_of(batch, s);
    if (tokens.empty()) continue;
    check_feed<Net>(tokens, sizes[static_cast<std::size_t>(s)], capacity, s);
    ++fed;
  }
  if (fed == 0) check_feed<Net>({}, 0, 0);
  return fed;
}

}  // namespace detail
}  // namespace simplx
