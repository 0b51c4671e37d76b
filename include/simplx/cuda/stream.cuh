// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/stream.cuh
/// Stream on a GPU: what generate/stream.hpp does, with the same names.
///
///     Inference<logits_of<tiny>, Cuda<>> net;
///     Stream<logits_of<tiny>, Cuda<>> stream(net);
///     generate(stream, prompt, 400, draw, emit);
///
/// What is remembered stays on the device. From the second token on all work of a token, from the copy of its number to
/// that of its logits, is one graph of CUDA: the host starts it with one call and waits. So is that of a token of each
/// of several sequences, whichever these are: as many take the same graph.

#include <simplx/cuda/inference.cuh>
#include <simplx/cuda/recorded.cuh>
#include <simplx/cuda/streamed.cuh>
#include <simplx/generate/stream.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

template <auto const& model, Precision precision>
class Stream<model, Cuda<precision>>
    : public detail::StreamSequences<Stream<model, Cuda<precision>>, Inference<model, Cuda<precision>>> {
  using Sequences = detail::StreamSequences<Stream, Inference<model, Cuda<precision>>>;
  friend Sequences;
  using Sequences::room, Sequences::stream_room, Sequences::set_size;

 public:
  using Backend = Cuda<precision>;
  using Net = Inference<model, Backend>;
  using S = typename Backend::Scalar;
  using G = typename Net::G;
  using Run = StreamedGraph<G, Backend>;
  using Sequences::capacity, Sequences::sequences, Sequences::size;  // found without this->, too

  /// Uses the weights of `net`, which must outlive it; several streams may, each on a thread of its own if no weights
  /// change meanwhile. A chunk, of 256 tokens unless given, or of one of each sequence, has room for the logits of all
  /// of them.
  ///
  /// Errors  throws Error if the context is no token, or longer than the model's positions; for less than one sequence;
  ///         if the device's memory is short
  /// Cost    bytes(); afterwards CUDA allocates what it needs for the work of feeds that come again, and feeds of
  ///         several sequences what they say. A chunk reads all weights once
  explicit Stream(Net& net, const StreamOptions& options = {})
      : Sequences(options, /*usual chunk*/ 256),
        net_(net),
        arena_(view_of<G>, detail::graph_scratch<G, Backend>(room()), room(), detail::Seeds::none),
        remembered_(sequences() * apart()),
        scratch_(Run::scratch(stream_room())),
        tokens_(room().tokens),
        past_(sequences()),
        numbers_(sequences()),
        offsets_(sequences() + 1),
        last_(sequences() * Net::vocab()) {
    std::ranges::fill(offsets_.host(), 0);
    std::ranges::fill(numbers_.host(), -1);
    reset();
  }

  /// Logits of the tokens that were evaluated last: of a feed at most the last `chunk`, or of those that came one to a
  /// sequence. (tokens, vocab), valid until the next call.
  ///
  /// Cost    a copy from the device
  std::span<const S> logits() {
    all_.resize(static_cast<std::size_t>(rows_ * Net::vocab()));
    gpu::check(cudaMemcpyAsync(all_.data(), results_, all_.size() * sizeof(S), cudaMemcpyDeviceToHost, gpu_.stream()),
               "the logits were not copied");
    gpu_.synchronize();
    return all_;
  }

  /// Forgets all tokens, or those of one sequence.
  ///
  /// Errors  throws Error if the stream has none of that number
  void reset() {
    for (Index s = 0; s < sequences(); ++s) reset(s);
  }
  void reset(Index sequence) {
    set_size(sequence, 0);
    gpu::check(cudaMemsetAsync(memory_of(sequence), 0, sizeof(S) * static_cast<std::size_t>(apart()), gpu_.stream()),
               "memory was not cleared");
  }
  /// Sequence `to` goes on as `from` would: what several texts begin with is evaluated once.
  ///
  /// Errors  throws Error if the stream has none of these numbers
  /// Cost    copies all that is remembered of a sequence, on the device; nobody waits
  void copy(Index from, Index to) {
    set_size(to, size(from));
    if (from == to) return;
    gpu::check(cudaMemcpyAsync(memory_of(to), memory_of(from), sizeof(S) * static_cast<std::size_t>(apart()),
                               cudaMemcpyDeviceToDevice, gpu_.stream()),
               "a sequence was not copied");
  }

  /// Of what the stream remembers of all sequences, on the device.
  Index cache_bytes() const { return static_cast<Index>(remembered_.bytes()); }
  /// Of all its buffers on the device, the weights aside.
  Index bytes() const {
    const std::size_t own = remembered_.bytes() + scratch_.bytes() + tokens_.bytes() + past_.bytes() +
                            numbers_.bytes() + offsets_.bytes() + gpu_.bytes();
    return static_cast<Index>(own) + arena_.size() * static_cast<Index>(sizeof(S));
  }
  /// As of a trainer.
  std::string not_recorded() const { return repeated_->refusal(); }
  std::vector<std::string> not_fused() const { return gpu_.products().not_fused(); }

 private:
  /// What is recorded, of weights that lie there: the net may be assigned to.
  struct Work {
    Index sequences, rows;
    detail::Chunk chunk;
    const void *parameters, *constants;

    bool operator==(const Work&) const = default;
  };

  Index capacity_in_tiles() const { return round_up(capacity(), gpu::step_tile); }
  /// Elements that a sequence remembers.
  Index apart() const { return Run::elements(capacity_in_tiles()); }
  S* memory_of(Index sequence) { return remembered_.data() + sequence * apart(); }

  std::span<const S> evaluate(std::span<const std::int32_t> tokens, const detail::ChunkSequences& of_chunk,
                              detail::Chunk chunk) {
    const Index count = of_chunk.segments.count, rows = std::ssize(tokens) / count;
    rows_ = std::ssize(tokens);
    std::ranges::copy(tokens, tokens_.host().begin());
    std::ranges::copy(of_chunk.past, past_.host().begin());
    Context<S> context = arena_.context({.tokens = rows_, .sequences = count, .longest_sequence = rows},
                                        {offsets_.data(), count}, rows);
    context.gpu = &gpu_;
    net_.give_weights(context);
    context.inputs[0] = tokens_.data();
    context.past = past_.data();
    results_ = context.outputs[0];
    const std::span<S> last = last_.span().first(static_cast<std::size_t>(count * Net::vocab()));
    const cudaStream_t stream = gpu_.stream();
    try {
      if (offsets_.host()[1] != rows) {
        for (Index s = 0; s <= sequences(); ++s) offsets_.host()[static_cast<std::size_t>(s)] = s * rows;
        offsets_.send(stream);
      }
      if (!std::ranges::equal(of_chunk.numbers, numbers_.host().first(of_chunk.numbers.size()))) {
        std::ranges::copy(of_chunk.numbers, numbers_.host().begin());
        numbers_.send(stream, count);
      }
      repeated_->run(gpu_.stream(), {count, rows, chunk, context.parameters, context.constants}, [&] {
        tokens_.send(stream, rows_);
        past_.send(stream, count);
        Run::forward(context,
                     StreamMemory<S>{.stores = memory_of(0),
                                     .capacity = capacity_in_tiles(),
                                     .scratch = scratch_.data(),
                                     .sequences = numbers_.data(),
                                     .apart = apart()},
                     chunk);
        if (chunk == detail::Chunk::between) return;
        gpu::check(cudaMemcpyAsync(last.data(), results_ + (rows_ - count) * Net::vocab(), last.size_bytes(),
                                   cudaMemcpyDeviceToHost, stream),
                   "the logits were not copied");
      });
    } catch (...) {
      gpu_.synchronize();  // what is pinned may still be read
      offsets_.host()[1] = 0, numbers_.host()[0] = -1;  // they may not have been sent
      throw;
    }
    gpu_.synchronize();
    return last;
  }

  Net& net_;
  Index rows_ = 0;
  Gpu gpu_;
  detail::Arena<S, DeviceBuffer<S>> arena_;
  DeviceBuffer<S> remembered_, scratch_;
  gpu::Upload<std::int32_t> tokens_;
  gpu::Upload<Index> past_, numbers_;  ///< of the sequences in the chunk
  gpu::Upload<Index> offsets_;  ///< where the rows of each begin
  const S* results_ = nullptr;  ///< logits of the last chunk, on the device
  gpu::PinnedBuffer<S> last_;
  std::vector<S> all_;
  // Elsewhere: a stream may move.
  std::unique_ptr<gpu::Repeated<Work>> repeated_ = std::make_unique<gpu::Repeated<Work>>();
};

}  // namespace simplx
