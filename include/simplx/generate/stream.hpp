// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/generate/stream.hpp
/// Stream: a model evaluated token by token, from the expression it was trained with.
///
///     Stream stream(net);                       // of the model and the backend of an Inference
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
  using Run = StreamedGraph<Graph<Untrained<model>>, Cpu<S>>;
  return Run::elements(round_up(context, cpu::token_block<S>)) * static_cast<Index>(sizeof(S));
}

/// A model token by token: logits of the next token, without evaluating anew what came before. What it is fed, and how
/// much that is: StreamSequences.
template <auto const& model, class Backend = Cpu<float>>
class Stream : public detail::StreamSequences<Stream<model, Backend>, Inference<model, Backend>> {
  using Sequences = detail::StreamSequences<Stream, Inference<model, Backend>>;
  friend Sequences;
  using Sequences::room, Sequences::stream_room, Sequences::set_size;

 public:
  using Sequences::capacity, Sequences::sequences, Sequences::size;  // found without this->, too
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
      : Sequences(options, usual_chunk()),
        net_(net),
        team_(options.threads),
        workspace_(room(), detail::Seeds::none),
        remembered_(sequences() * apart()),
        scratch_(Run::scratch(stream_room())) {}

  /// Logits of the tokens that were evaluated last: of a feed at most the last `chunk`, or of those that came one to a
  /// sequence. (tokens, vocab)
  std::span<const S> logits() const { return logits_; }

  /// Forgets all tokens, or those of one sequence.
  ///
  /// Errors  throws Error if the stream has none of that number
  void reset() {
    for (Index s = 0; s < sequences(); ++s) reset(s);
  }
  void reset(Index sequence) {
    set_size(sequence, 0);
    std::ranges::fill(memory_of(sequence), S(0));  // the end of a block is read before it is written
  }
  /// Sequence `to` goes on as `from` would: what several texts begin with is evaluated once.
  ///
  /// Errors  throws Error if the stream has none of these numbers
  /// Cost    a copy of what a sequence remembers
  void copy(Index from, Index to) {
    set_size(to, size(from));
    if (from != to) std::ranges::copy(memory_of(from), memory_of(to).begin());
  }

  /// Of what the stream remembers.
  Index cache_bytes() const { return sequences() * simplx::cache_bytes<model, S>(capacity()); }
  /// What the stream remembers, for tests that poison it.
  std::span<S> memory() { return remembered_.span(); }

 private:
  /// Tokens of whole blocks.
  Index capacity_in_blocks() const { return round_up(capacity(), cpu::token_block<S>); }
  /// Elements from what is remembered of one sequence to that of the next.
  Index apart() const { return Run::elements(capacity_in_blocks()); }
  std::span<S> memory_of(Index sequence) {
    return memory().subspan(static_cast<std::size_t>(sequence * apart()), static_cast<std::size_t>(apart()));
  }

  std::span<const S> evaluate(std::span<const std::int32_t> tokens, const detail::ChunkSequences& of_chunk,
                              detail::Chunk chunk) {
    const Index rows = std::ssize(tokens), count = of_chunk.segments.count;
    Context<S> context = workspace_.context({.tokens = rows, .sequences = count}, of_chunk.segments, rows / count);
    context.team = &team_;
    context = net_.give_weights(context);
    context.past = of_chunk.past.data();
    context.inputs[0] = tokens.data();
    const StreamMemory<S> memory{.stores = remembered_.data(),
                                 .capacity = capacity_in_blocks(),
                                 .scratch = scratch_.data(),
                                 .sequences = of_chunk.numbers.data(),
                                 .apart = apart()};
    Run::forward(context, memory, chunk);
    logits_ = {context.outputs[0], static_cast<std::size_t>(rows * Net::vocab())};
    return logits_.last(static_cast<std::size_t>(count * Net::vocab()));
  }

  Net& net_;
  cpu::Team team_;
  detail::Workspace<G, Backend> workspace_;
  cpu::Buffer<S> remembered_, scratch_;
  std::span<const S> logits_;  ///< of the last chunk
};
template <auto const& model, class Backend>
Stream(Inference<model, Backend>&, const StreamOptions& = {}) -> Stream<model, Backend>;

}  // namespace simplx
