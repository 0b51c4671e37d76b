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
/// New rows run through the ordinary kernels; ops that look at rows before them remember what they need
/// (streamed.hpp). What cannot be streamed does not compile.

#include <simplx/generate/inference.hpp>
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
  /// Errors  throws Error if the context is no token, or longer than the model's positions; for less than one thread,
  ///         or if the system does not start them all
  /// Cost    cache_bytes<model, S>(context), the workspace of a chunk and, where keys are folded into queries, room for
  ///         those of a layer; nothing is allocated afterwards
  explicit Stream(Net& net, const StreamOptions& options = {})
      : net_(net),
        capacity_(checked_context(options.context.value_or(Net::usual_context()), Net::longest_sequence())),
        chunk_(std::min(std::max<Index>(options.chunk.value_or(usual_chunk()), 1), capacity_)),
        team_(options.threads),
        workspace_(Rows{.tokens = chunk_}, detail::Seeds::none),
        remembered_(simplx::cache_bytes<model, S>(capacity_) / static_cast<Index>(sizeof(S))),
        scratch_(Run::scratch(chunk_, capacity_)) {}

  /// Logits of the last of these tokens, (vocab), valid until the next call.
  ///
  /// Errors  throws Error if there is no token, one is out of range, or they do not fit the context; then nothing
  ///         has changed
  /// Cost    the products of these rows alone, but logits of the last chunk only, and attention to all before them;
  ///         threads share these; no allocation
  std::span<const S> feed(std::span<const std::int32_t> tokens) {
    detail::check_feed<Net>(tokens, size_, capacity_);
    const auto count = static_cast<Index>(tokens.size());
    for (Index begin = 0; begin < count; begin += chunk_) {
      const Index rows = std::min(chunk_, count - begin);
      evaluate(tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(rows)),
               begin + rows == count ? detail::Chunk::last : detail::Chunk::between);
    }
    return logits_.last(static_cast<std::size_t>(Net::vocab()));
  }

  /// Logits of the tokens that were evaluated last, of a feed at most the last `chunk`: (tokens, vocab).
  std::span<const S> logits() const { return logits_; }

  /// Forgets all tokens.
  void reset() {
    std::ranges::fill(remembered_, S(0));  // the end of a block is read before it is written
    size_ = 0;
  }

  Index size() const { return size_; }
  Index capacity() const { return capacity_; }
  /// Of what the stream remembers.
  Index cache_bytes() const { return remembered_.size() * static_cast<Index>(sizeof(S)); }
  /// What the stream remembers, for tests that poison it.
  std::span<S> memory() { return remembered_.span(); }

 private:
  void evaluate(std::span<const std::int32_t> tokens, detail::Chunk chunk) {
    const auto rows = static_cast<Index>(tokens.size());
    offsets_[1] = rows;
    Context<S> context = workspace_.context(Rows{.tokens = rows}, {offsets_, 1}, rows);
    context.team = &team_;
    context = net_.give_weights(context);
    context.past = size_;
    context.inputs[0] = tokens.data();
    const Index capacity = round_up(capacity_, cpu::token_block<S>);
    S* once = remembered_.data() + Run::table.all().per_token * capacity;
    Run::forward(context, StreamMemory<S>{remembered_.data(), once, capacity, scratch_.data()}, chunk);
    size_ += rows;
    logits_ = {context.outputs[0], static_cast<std::size_t>(rows * Net::vocab())};
  }

  Net& net_;
  Index capacity_, chunk_, size_ = 0;
  cpu::Team team_;
  detail::Workspace<G, Backend> workspace_;
  cpu::Buffer<S> remembered_, scratch_;
  Index offsets_[2] = {0, 0};
  std::span<const S> logits_;
};

}  // namespace simplx
