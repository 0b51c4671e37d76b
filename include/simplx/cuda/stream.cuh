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
/// that of its logits, is one graph of CUDA: the host starts it with one call and waits.

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
class Stream<model, Cuda<precision>> {
 public:
  using Backend = Cuda<precision>;
  using Net = Inference<model, Backend>;
  using S = typename Backend::Scalar;
  using G = typename Net::G;
  using Run = StreamedGraph<G, Backend>;

  /// Uses the weights of `net`, which must outlive it; several streams may, each on a thread of its own if no weights
  /// change meanwhile. A chunk, of 256 tokens unless given, has room for the logits of all of them.
  ///
  /// Errors  throws Error if the context is no token, or longer than the model's positions; if the device's memory is
  ///         short
  /// Cost    bytes(); afterwards CUDA allocates what it needs for the work of feeds that come again, nothing else does.
  ///         A chunk reads all weights once
  explicit Stream(Net& net, const StreamOptions& options = {})
      : net_(net),
        capacity_(checked_context(options.context.value_or(Net::usual_context()), Net::longest_sequence())),
        chunk_(std::min(std::max<Index>(options.chunk.value_or(256), 1), capacity_)),
        arena_(view_of<G>, detail::graph_scratch<G, Backend>(rows_of(chunk_)), rows_of(chunk_), detail::Seeds::none),
        stores_(Run::table.all().per_token * round_up(capacity_, gpu::step_tile)),
        once_(Run::table.all().once),
        scratch_(Run::scratch(chunk_, capacity_)),
        tokens_(chunk_),
        offsets_(2),
        last_(Net::vocab()) {
    std::ranges::fill(offsets_.host(), 0);
    reset();
  }

  /// Logits of the last of these tokens, (vocab), valid until the next call.
  ///
  /// Errors  throws Error if there is no token, one is out of range, or they do not fit the context; then nothing
  ///         has changed
  /// Cost    the products of these rows alone, but logits of the last chunk only, and attention to all before them
  std::span<const S> feed(std::span<const std::int32_t> tokens) {
    detail::check_feed<Net>(tokens, size_, capacity_);
    const auto count = static_cast<Index>(tokens.size());
    for (Index begin = 0; begin < count; begin += chunk_) {
      rows_ = std::min(chunk_, count - begin);
      evaluate(tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(rows_)),
               begin + rows_ == count ? detail::Chunk::last : detail::Chunk::between);
    }
    return last_.span();
  }

  /// Logits of the tokens that were evaluated last, of a feed at most the last `chunk`: (tokens, vocab), valid until
  /// the next call.
  ///
  /// Cost    a copy from the device
  std::span<const S> logits() {
    all_.resize(static_cast<std::size_t>(rows_ * Net::vocab()));
    gpu::check(cudaMemcpyAsync(all_.data(), results_, all_.size() * sizeof(S), cudaMemcpyDeviceToHost, gpu_.stream()),
               "the logits were not copied");
    gpu_.synchronize();
    return all_;
  }

  /// Forgets all tokens.
  void reset() {
    if (once_.size()) once_.fill_with_zero(gpu_.stream());
    size_ = 0;
  }

  Index size() const { return size_; }
  Index capacity() const { return capacity_; }
  /// Of what the stream remembers, on the device.
  Index cache_bytes() const { return static_cast<Index>(stores_.bytes() + once_.bytes()); }
  /// Of all its buffers on the device, the weights aside.
  Index bytes() const {
    const std::size_t own = stores_.bytes() + once_.bytes() + scratch_.bytes() + tokens_.bytes() + offsets_.bytes() +
                            gpu_.bytes();
    return static_cast<Index>(own) + arena_.size() * static_cast<Index>(sizeof(S));
  }
  /// As of a trainer.
  std::string not_recorded() const { return repeated_->refusal(); }
  std::vector<std::string> not_fused() const { return gpu_.products().not_fused(); }

 private:
  /// What is recorded, of weights that lie there: the net may be assigned to.
  struct Work {
    Index rows;
    detail::Chunk chunk;
    const void *parameters, *constants;

    bool operator==(const Work&) const = default;
  };

  static Rows rows_of(Index tokens) { return {.tokens = tokens, .sequences = 1, .longest_sequence = tokens}; }

  void evaluate(std::span<const std::int32_t> tokens, detail::Chunk chunk) {
    std::ranges::copy(tokens, tokens_.host().begin());
    gpu_.take_past(size_);
    Context<S> context = arena_.context(rows_of(rows_), {offsets_.data(), 1}, rows_);
    context.gpu = &gpu_;
    net_.give_weights(context);
    context.inputs[0] = tokens_.data();
    results_ = context.outputs[0];
    const cudaStream_t stream = gpu_.stream();
    try {
      if (std::exchange(offsets_.host()[1], rows_) != rows_) offsets_.send(stream);
      repeated_->run(gpu_.stream(), {rows_, chunk, context.parameters, context.constants}, [&] {
        tokens_.send(stream, rows_);
        gpu_.send_past();
        Run::forward(
            context,
            StreamMemory<S>{stores_.data(), once_.data(), round_up(capacity_, gpu::step_tile), scratch_.data()}, chunk);
        if (chunk == detail::Chunk::between) return;
        gpu::check(cudaMemcpyAsync(last_.span().data(), results_ + (rows_ - 1) * Net::vocab(),
                                   last_.span().size_bytes(), cudaMemcpyDeviceToHost, stream),
                   "the logits were not copied");
      });
    } catch (...) {
      gpu_.synchronize();  // what is pinned may still be read
      offsets_.host()[1] = 0;  // they may not have been sent
      throw;
    }
    gpu_.synchronize();
    size_ += rows_;
  }

  Net& net_;
  Index capacity_, chunk_, size_ = 0, rows_ = 0;
  Gpu gpu_;
  detail::Arena<S, DeviceBuffer<S>> arena_;
  DeviceBuffer<S> stores_, once_, scratch_;
  gpu::Upload<std::int32_t> tokens_;
  gpu::Upload<Index> offsets_;
  const S* results_ = nullptr;  ///< logits of the last chunk, on the device
  gpu::PinnedBuffer<S> last_;
  std::vector<S> all_;
  // Elsewhere: a stream may move.
  std::unique_ptr<gpu::Repeated<Work>> repeated_ = std::make_unique<gpu::Repeated<Work>>();
};

}  // namespace simplx
