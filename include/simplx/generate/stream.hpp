// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/generate/stream.hpp
/// Stream: a model evaluated token by token, from the expression it was trained with.
///
///     Stream<logits_of<tiny>> stream(net);
///     stream.feed(prompt);                      // logits of the last token
///     stream.feed({&token, 1});                 // of the next one; nothing before is evaluated again
///
/// With {.threads = 4} the threads share what is large of each token; the logits have the same bits for any number.
/// With {.sequences = 8} so many texts go on at once, and weights are read once for one token of each:
///
///     stream.feed(prompts);                     // a TokenBatch of eight
///     stream.copy(0, 1);                        // or of one, which others go on from
///
/// New rows run through the ordinary kernels; ops that look at rows before them remember what they need
/// (streamed.hpp). What cannot be streamed does not compile.

#include <simplx/generate/inference.hpp>
#include <simplx/generate/stream_sequences.hpp>
#include <simplx/generate/streamed_graph.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// Bytes that a stream of a model on the CPU remembers for a context of so many tokens.
template <auto const& model, class S = float>
constexpr Index cache_bytes(Index context) {
  constexpr Remembered all = StreamedGraph<Graph<Untrained<model>>, Cpu<S>>::table.all();
  return (all.per_token * round_up(context, cpu::token_block<S>) + all.once) * static_cast<Index>(sizeof(S));
}

/// A model token by token: logits of the next token, without evaluating anew what came before.
template <auto const& model, class Backend = Cpu<float>>
class Stream {
 public:
  static_assert(detail::runs_on_host<Backend>());
  using Net = Inference<model, Backend>;
  using S = typename Backend::Scalar;
  using G = typename Net::G;
  using Run = StreamedGraph<G, Backend>;

  /// Tokens evaluated at once unless told otherwise: fewer where logits of all of them would take much memory and time.
  static constexpr Index usual_chunk() { return Net::vocab() > 4096 ? 64 : 256; }

  /// Uses the weights of `net`, which must outlive it; several streams may, each on a thread of its own if no weights
  /// change meanwhile.
  ///
  /// Errors  throws Error if the context is no token, or longer than the model's positions; for less than one sequence
  ///         or thread, or if the system does not start them all
  /// Cost    cache_bytes<model, S>(context) for each sequence, the workspace of a chunk and, where keys are folded into
  ///         queries, room for those of a layer; nothing is allocated afterwards but by feeds of several sequences
  explicit Stream(Net& net, const StreamOptions& options = {})
      : net_(net),
        capacity_(checked_context(options.context.value_or(Net::usual_context()), Net::longest_sequence())),
        chunk_(std::min(std::max<Index>(options.chunk.value_or(usual_chunk()), 1), capacity_)),
        sequences_(options.sequences),
        team_(options.threads),
        workspace_(rows_of(std::max(chunk_, sequences()), chunk_), detail::Seeds::none),
        remembered_(sequences() * apart()),
        scratch_(Run::scratch({.rows = chunk_, .sequences = sequences(), .context = capacity_})) {}

  /// Logits of the last of these tokens, (vocab), valid until the next call.
  ///
  /// Errors  throws Error if there is no token, one is out of range, or they do not fit the context; then nothing
  ///         has changed; also of a stream of several sequences
  /// Cost    the products of these rows alone, but logits of the last chunk only, and attention to all before them;
  ///         threads share these; no allocation
  std::span<const S> feed(std::span<const std::int32_t> tokens) {
    sequences_.check_one();
    detail::check_feed<Net>(tokens, size(), capacity_);
    go_on(0, tokens);
    return last_logits();
  }
  /// Logits of the last token of each sequence that has new ones, (those sequences, vocab), valid until the next call.
  /// Sequence s of the batch goes on sequence s of the stream; one that waits is empty. Labels are not read.
  ///
  /// Errors  throws Error for another number of sequences, if none has a token, one is out of range, or they do not fit
  ///         a context; then nothing has changed
  /// Cost    sequences of one new token go on together: products read the weights once for all of them. Those of more
  ///         go on one by one, as above
  std::span<const S> feed(const std::same_as<TokenBatch> auto& batch) {
    const Index fed = detail::check_feed<Net>(batch, sequences_.sizes(), capacity_);
    const std::span<const std::int32_t> single = sequences_.choose_single(batch);
    if (!single.empty()) evaluate(single, detail::Chunk::last);
    if (std::ssize(single) == fed) return logits_;

    results_.resize(static_cast<std::size_t>(fed * Net::vocab()));
    Index row = 0;  // of the single tokens
    sequences_.each_fed(batch, [&](Index place, Index, std::span<const std::int32_t> tokens) {
      if (tokens.size() == 1) keep(place, logits_.data() + row++ * Net::vocab());
    });
    sequences_.each_fed(batch, [&](Index place, Index sequence, std::span<const std::int32_t> tokens) {
      if (tokens.size() == 1) return;
      go_on(sequence, tokens);
      keep(place, last_logits().data());
    });
    return results_;
  }

  /// Logits of the tokens that were evaluated last, of a feed at most the last `chunk`: (tokens, vocab).
  std::span<const S> logits() const { return logits_; }

  /// Forgets all tokens, or those of one sequence.
  void reset() {
    std::ranges::fill(remembered_, S(0));  // the end of a block is read before it is written
    sequences_.reset();
  }
  void reset(Index sequence) {
    sequences_.reset(sequence);
    std::ranges::fill(memory_of(sequence), S(0));
  }
  /// Sequence `to` goes on as `from` would: what several texts begin with is evaluated once.
  ///
  /// Errors  throws Error if there is no such sequence
  /// Cost    a copy of what a sequence remembers
  void copy(Index from, Index to) {
    sequences_.copy(from, to);
    std::ranges::copy(memory_of(from), memory_of(to).begin());
  }

  Index sequences() const { return sequences_.count(); }
  /// Tokens of a sequence.
  Index size(Index sequence = 0) const { return sequences_.size(sequence); }
  /// Tokens at most, of each.
  Index capacity() const { return capacity_; }
  /// Of what the stream remembers.
  Index cache_bytes() const { return remembered_.size() * static_cast<Index>(sizeof(S)); }
  /// What the stream remembers, for tests that poison it.
  std::span<S> memory() { return remembered_.span(); }

 private:
  static Rows rows_of(Index tokens, Index longest) { return {.tokens = tokens, .longest_sequence = longest}; }
  Index blocks() const { return round_up(capacity_, cpu::token_block<S>); }  // tokens of them
  /// Elements that one sequence remembers.
  Index apart() const { return simplx::cache_bytes<model, S>(capacity_) / static_cast<Index>(sizeof(S)); }
  std::span<S> memory_of(Index sequence) {
    return memory().subspan(static_cast<std::size_t>(sequence * apart()), static_cast<std::size_t>(apart()));
  }
  std::span<const S> last_logits() const { return logits_.last(static_cast<std::size_t>(Net::vocab())); }
  void keep(Index place, const S* logits) {
    std::copy_n(logits, Net::vocab(), results_.data() + place * Net::vocab());
  }

  void go_on(Index sequence, std::span<const std::int32_t> tokens) {
    sequences_.choose(sequence);
    const auto count = static_cast<Index>(tokens.size());
    for (Index begin = 0; begin < count; begin += chunk_) {
      const Index rows = std::min(chunk_, count - begin);
      evaluate(tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(rows)),
               begin + rows == count ? detail::Chunk::last : detail::Chunk::between);
    }
  }
  /// Of the sequences that were chosen.
  void evaluate(std::span<const std::int32_t> tokens, detail::Chunk chunk) {
    const auto rows = static_cast<Index>(tokens.size());
    sequences_.lay_out(rows);
    const Segments segments = sequences_.segments();
    const Index longest = rows / segments.count;
    Context<S> context = workspace_.context(rows_of(rows, longest), segments, longest);
    context.team = &team_;
    context = net_.give_weights(context);
    context.past = sequences_.past();
    context.inputs[0] = tokens.data();
    S* const stores = remembered_.data();
    const StreamMemory<S> memory{.stores = stores,
                                 .once = stores + Run::table.all().per_token * blocks(),
                                 .capacity = blocks(),
                                 .scratch = scratch_.data(),
                                 .sequences = sequences_.numbers(),
                                 .apart = apart()};
    Run::forward(context, memory, chunk);
    sequences_.go_on();
    logits_ = {context.outputs[0], static_cast<std::size_t>(rows * Net::vocab())};
  }

  Net& net_;
  Index capacity_, chunk_;
  detail::StreamSequences sequences_;
  cpu::Team team_;
  detail::Workspace<G, Backend> workspace_;
  cpu::Buffer<S> remembered_, scratch_;
  std::span<const S> logits_;  ///< of the last chunk
  std::vector<S> results_;
};

}  // namespace simplx
