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
class Stream<model, Cuda<precision>> {
 public:
  using Backend = Cuda<precision>;
  using Net = Inference<model, Backend>;
  using S = typename Backend::Scalar;
  using G = typename Net::G;
  using Run = StreamedGraph<G, Backend>;

  /// Uses the weights of `net`, which must outlive it; several streams may, each on a thread of its own if no weights
  /// change meanwhile. A chunk, of 256 tokens unless given, or of one of each sequence, has room for the logits of all
  /// of them.
  ///
  /// Errors  throws Error if the context is no token, or longer than the model's positions; for less than one sequence;
  ///         if the device's memory is short
  /// Cost    bytes(); afterwards CUDA allocates what it needs for the work of feeds that come again, nothing else does.
  ///         A chunk reads all weights once
  explicit Stream(Net& net, const StreamOptions& options = {})
      : net_(net),
        capacity_(checked_context(options.context.value_or(Net::usual_context()), Net::longest_sequence())),
        chunk_(std::min(std::max<Index>(options.chunk.value_or(256), 1), capacity_)),
        sizes_(static_cast<std::size_t>(detail::checked_sequences(options.sequences))),
        arena_(view_of<G>, detail::graph_scratch<G, Backend>(room()), room(), detail::Seeds::none),
        remembered_(sequences() * apart()),
        scratch_(Run::scratch(StreamRoom{.rows = chunk_, .sequences = sequences(), .context = capacity_})),
        tokens_(room().tokens),
        places_(2 * sequences()),
        offsets_(sequences() + 1),
        last_(sequences() * Net::vocab()) {
    std::ranges::fill(offsets_.host(), 0);
    std::ranges::fill(places_.host(), 0);
    reset();
  }

  /// Logits of the last of these tokens, (vocab), valid until the next call.
  ///
  /// Errors  throws Error if the stream has several sequences, if there is no token, one is out of range, or they do
  ///         not fit the context; then nothing has changed
  /// Cost    the products of these rows alone, but logits of the last chunk only, and attention to all before them
  std::span<const S> feed(std::span<const std::int32_t> tokens) {
    if (sequences() > 1) {
      throw Error("these tokens are of one sequence, and the stream has " + std::to_string(sequences()),
                  "feed a TokenBatch of as many sequences; one without new tokens is empty");
    }
    detail::check_feed<Net>(tokens, sizes_[0], capacity_);
    go_on(0, tokens);
    return last_.span();
  }
  /// The same for each sequence of the stream, which those of the batch go on; some may be empty. Logits of the last
  /// token of each that is not, in their order: (those, vocab), valid until the next call. Labels are not read.
  ///
  /// Errors  throws Error if the batch has more or fewer sequences, or one is not among its tokens; and as above
  /// Cost    sequences with one new token are evaluated together: weights are read once. Each other one by itself; then
  ///         logits are copied once more, to memory that is allocated when so many are first
  std::span<const S> feed(const std::same_as<TokenBatch> auto& batch) {
    detail::check_feed<Net>(batch, sizes_, capacity_);
    Index fed = 0, ones = 0;
    for (Index s = 0; s < sequences(); ++s) {
      const auto tokens = detail::tokens_of(batch, s);
      fed += !tokens.empty();
      if (tokens.size() == 1) put(ones++, s, tokens);
    }
    if (ones < fed) mixed_.resize(static_cast<std::size_t>(fed * Net::vocab()));
    if (ones > 0) evaluate(ones, 1, detail::Chunk::last);
    if (ones == fed) return last_.span().first(static_cast<std::size_t>(ones * Net::vocab()));
    const auto keep = [&](Index from, Index to) {
      std::copy_n(last_.span().begin() + from * Net::vocab(), Net::vocab(), mixed_.begin() + to * Net::vocab());
    };
    for (const bool several : {false, true}) {  // those of one token first: the others' logits take the place of theirs
      Index to = 0, one = 0;
      for (Index s = 0; s < sequences(); ++s) {
        const auto tokens = detail::tokens_of(batch, s);
        if (tokens.empty()) continue;
        if (several && tokens.size() > 1) go_on(s, tokens), keep(0, to);
        if (!several && tokens.size() == 1) keep(one++, to);
        ++to;
      }
    }
    return std::span(mixed_).first(static_cast<std::size_t>(fed * Net::vocab()));
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

  /// Forgets all tokens.
  void reset() {
    for (Index s = 0; s < sequences(); ++s) reset(s);
  }
  /// Forgets those of one sequence.
  ///
  /// Errors  throws Error if the stream has none of that number
  void reset(Index sequence) {
    Index& size = sizes_[detail::checked_number(sequence, sequences())];
    if constexpr (all.once > 0) {  // stores are not read before they are written
      gpu::check(cudaMemsetAsync(slab(sequence) + stored(), 0, sizeof(S) * static_cast<std::size_t>(all.once),
                                 gpu_.stream()),
                 "memory was not cleared");
    }
    size = 0;
  }
  /// Sequence `to` goes on as `from` would.
  ///
  /// Errors  throws Error if the stream has none of these numbers
  /// Cost    copies all that is remembered of a sequence, on the device; nobody waits
  void copy(Index from, Index to) {
    const Index size = sizes_[detail::checked_number(from, sequences())];
    Index& other = sizes_[detail::checked_number(to, sequences())];
    if (from == to) return;
    gpu::check(cudaMemcpyAsync(slab(to), slab(from), sizeof(S) * static_cast<std::size_t>(apart()),
                               cudaMemcpyDeviceToDevice, gpu_.stream()),
               "a sequence was not copied");
    other = size;
  }

  /// Tokens of a sequence.
  ///
  /// Errors  throws Error if the stream has none of that number
  Index size(Index sequence = 0) const { return sizes_[detail::checked_number(sequence, sequences())]; }
  Index sequences() const { return std::ssize(sizes_); }
  /// Tokens that a sequence may have.
  Index capacity() const { return capacity_; }
  /// Of what the stream remembers of all sequences, on the device.
  Index cache_bytes() const { return static_cast<Index>(remembered_.bytes()); }
  /// Of all its buffers on the device, the weights aside.
  Index bytes() const {
    const std::size_t own = remembered_.bytes() + scratch_.bytes() + tokens_.bytes() + places_.bytes() +
                            offsets_.bytes() + gpu_.bytes();
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

  static constexpr Remembered all = Run::table.all();

  /// Tokens that there is room for, of one sequence or one of each.
  Rows room() const {
    return {.tokens = std::max(chunk_, sequences()), .sequences = sequences(), .longest_sequence = chunk_};
  }
  /// Elements that a sequence remembers for each token, and all of them: what it remembers once comes after.
  Index stored() const { return all.per_token * round_up(capacity_, gpu::step_tile); }
  Index apart() const { return round_up(stored() + all.once, alignment); }
  S* slab(Index sequence) { return remembered_.data() + sequence * apart(); }

  /// Says which sequence of the stream is the one at a place of what is evaluated next, and its tokens.
  void put(Index place, Index sequence, std::span<const std::int32_t> tokens) {
    places_.host()[static_cast<std::size_t>(place)] = sizes_[static_cast<std::size_t>(sequence)];
    places_.host()[static_cast<std::size_t>(sequences() + place)] = sequence;
    std::ranges::copy(tokens, tokens_.host().begin() + place * std::ssize(tokens));
  }
  /// Evaluates tokens of one sequence, in chunks.
  void go_on(Index sequence, std::span<const std::int32_t> tokens) {
    const Index count = std::ssize(tokens);
    for (Index begin = 0; begin < count; begin += chunk_) {
      const Index rows = std::min(chunk_, count - begin);
      put(0, sequence, tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(rows)));
      evaluate(1, rows, begin + rows == count ? detail::Chunk::last : detail::Chunk::between);
    }
  }
  /// Evaluates what was put, so many rows of each sequence: some of one, or one of each.
  void evaluate(Index count, Index rows, detail::Chunk chunk) {
    rows_ = count * rows;
    Context<S> context = arena_.context({.tokens = rows_, .sequences = count, .longest_sequence = rows},
                                        {offsets_.data(), count}, rows);
    context.gpu = &gpu_;
    net_.give_weights(context);
    context.inputs[0] = tokens_.data();
    context.past = places_.data();
    results_ = context.outputs[0];
    const cudaStream_t stream = gpu_.stream();
    try {
      if (offsets_.host()[1] != rows) {
        for (Index s = 0; s <= sequences(); ++s) offsets_.host()[static_cast<std::size_t>(s)] = s * rows;
        offsets_.send(stream);
      }
      repeated_->run(gpu_.stream(), {count, rows, chunk, context.parameters, context.constants}, [&] {
        tokens_.send(stream, rows_);
        places_.send(stream);
        Run::forward(context,
                     StreamMemory<S>{.stores = slab(0), .once = slab(0) + stored(),
                                     .capacity = round_up(capacity_, gpu::step_tile), .scratch = scratch_.data(),
                                     .sequences = places_.data() + sequences(), .apart = apart()},
                     chunk);
        if (chunk == detail::Chunk::between) return;
        gpu::check(cudaMemcpyAsync(last_.span().data(), results_ + (rows_ - count) * Net::vocab(),
                                   sizeof(S) * static_cast<std::size_t>(count * Net::vocab()), cudaMemcpyDeviceToHost,
                                   stream),
                   "the logits were not copied");
      });
    } catch (...) {
      gpu_.synchronize();  // what is pinned may still be read
      offsets_.host()[1] = 0;  // they may not have been sent
      throw;
    }
    gpu_.synchronize();
    for (const Index sequence : places_.host().subspan(static_cast<std::size_t>(sequences()),
                                                       static_cast<std::size_t>(count))) {
      sizes_[static_cast<std::size_t>(sequence)] += rows;
    }
  }

  Net& net_;
  Index capacity_, chunk_, rows_ = 0;
  std::vector<Index> sizes_;  ///< of the sequences, in tokens
  Gpu gpu_;
  detail::Arena<S, DeviceBuffer<S>> arena_;
  DeviceBuffer<S> remembered_, scratch_;
  gpu::Upload<std::int32_t> tokens_;
  gpu::Upload<Index> places_;   ///< of the sequences evaluated together how many tokens came before, then their numbers
  gpu::Upload<Index> offsets_;  ///< where the rows of each begin
  const S* results_ = nullptr;  ///< logits of the last chunk, on the device
  gpu::PinnedBuffer<S> last_;
  std::vector<S> all_, mixed_;
  // Elsewhere: a stream may move.
  std::unique_ptr<gpu::Repeated<Work>> repeated_ = std::make_unique<gpu::Repeated<Work>>();
};

}  // namespace simplx
