// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/inference.cuh
/// Inference on a GPU: what generate/inference.hpp does, with the same names, initial values and checkpoints.
///
///     Inference<logits_of<tiny>, Cuda<>> net;
///     load_checkpoint(path, net);
///     net.logits(tokens);                       // of a sequence
///     net.logits(batch);                        // of several
///
/// Weights stay on the device; a call copies tokens there and logits back, and waits for them. Spans of weights are
/// copies on the host: what is written there counts from the next call of `logits`, or of a stream's `feed`, on, which
/// ends them.

#include <simplx/cuda/graph_on.cuh>
#include <simplx/cuda/device_parameters.cuh>
#include <simplx/cuda/ops.cuh>
#include <simplx/generate/inference.hpp>

#include <optional>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

template <auto const& model, Precision precision>
class Inference<model, Cuda<precision>> : public detail::LogitsModel<model> {
  using Model = detail::LogitsModel<model>;

 public:
  using Backend = Cuda<precision>;
  using S = typename Backend::Scalar;
  using G = gpu::GraphOn<Untrained<model>, Backend>;
  using Run = Execute<G, Backend>;

  /// Initial values, until others are loaded.
  ///
  /// Errors  throws Error if there is no GPU, or if its memory is short
  explicit Inference(const InferenceOptions& options = {})
      : tensors_(tensors_of<model>()),
        parameters_(G::layout.parameters),
        constants_(G::layout.constants) {
    if (options.initial_values) initialise(tensors_.parameters, options.seed, parameters().data());
    initialise(tensors_.constants, options.seed, constants().data());
  }

  const TensorList& tensors() const { return tensors_; }
  std::span<S> parameters() {
    sent_.again();
    return parameters_.host(stream());
  }
  std::span<S> constants() {
    sent_.again();
    return constants_.host(stream());
  }
  std::span<S> parameter(std::string_view name) {
    return slice_of(tensors_.parameters, parameters(), name, "parameter");
  }
  std::span<S> constant(std::string_view name) {
    return slice_of(tensors_.constants, constants(), name, "constant");
  }
  /// As of a trainer.
  std::vector<std::string> not_fused() const { return gpu_.products().not_fused(); }

  /// Logits of a whole sequence, (tokens, vocab), valid until the next call.
  ///
  /// Errors  throws Error if there is no token, one is out of range, or the model's positions end before
  /// Cost    a forward pass over all tokens; allocates if none so long came before
  std::span<const S> logits(std::span<const std::int32_t> tokens) {
    Model::checked_length(tokens);
    logits_.resize(Model::logits_of_all(tokens));
    logits(tokens, logits_);
    return logits_;
  }
  /// The same, into memory of the caller: `to` has (tokens, vocab) numbers.
  ///
  /// Errors  throws Error also if it has more or fewer
  void logits(std::span<const std::int32_t> tokens, std::span<S> to) {
    Model::check_room(std::ssize(tokens), Model::logits_of_all(tokens), to.size());
    const Index length = Model::checked_length(tokens), offsets[] = {0, length};
    evaluate(tokens, offsets, length, to);
  }

  /// Logits of the sequences of a batch, one after the other, (tokens, vocab), of a classifier (sequences, classes),
  /// valid until the next call. Labels are not read.
  ///
  /// Errors  throws Error if there is no sequence, one has no token, a token is out of range, or the model's positions
  ///         end before
  /// Cost    a forward pass over all tokens at once, and memory for it; one for each sequence if rows of the model are
  ///         made of several
  std::span<const S> logits(const std::same_as<TokenBatch> auto& batch) {
    Model::checked_lengths(batch);
    logits_.resize(Model::logits_before(batch, batch.sequences()));
    logits(batch, logits_);
    return logits_;
  }
  /// The same, into memory of the caller.
  ///
  /// Errors  throws Error also if it has more or fewer
  void logits(const std::same_as<TokenBatch> auto& batch, std::span<S> to) {
    const Index longest = Model::checked_lengths(batch), count = batch.sequences();
    const auto tokens = Model::tokens_of(batch);
    Model::check_room(std::ssize(tokens), Model::logits_before(batch, count), to.size());
    std::vector<Index> offsets(batch.offsets);
    for (Index& offset : offsets) offset -= batch.offsets.front();
    if constexpr (Model::together()) {
      evaluate(tokens, offsets, longest, to);
    } else {
      for (Index s = 0; s < count; ++s) {
        const auto at = static_cast<std::size_t>(s);
        const auto own = tokens.subspan(static_cast<std::size_t>(offsets[at]),
                                        static_cast<std::size_t>(offsets[at + 1] - offsets[at]));
        const std::size_t begin = Model::logits_before(batch, s);
        logits(own, to.subspan(begin, Model::logits_before(batch, s + 1) - begin));
      }
    }
  }

  /// The addresses of the weights on the device, for the context and its Gpu: they are there when this returns. For
  /// several threads at once.
  void give_weights(Context<S>& context) {
    sent_([&] {
      parameters_on_device_ = parameters_.device(stream());
      constants_on_device_ = constants_.device(stream());
      gpu_.synchronize();
    });
    context.parameters = parameters_on_device_;
    context.constants = constants_on_device_;
    context.gpu->take_parameters(parameters_on_device_, parameters_.rounded());
  }

 private:
  const GpuStream& stream() const { return gpu_.stream(); }
  /// Sequences that begin at these offsets, from 0, together.
  void evaluate(std::span<const std::int32_t> tokens, std::span<const Index> offsets, Index longest, std::span<S> to) {
    const Index sequences = std::ssize(offsets) - 1;
    const Rows rows{.tokens = std::ssize(tokens), .sequences = sequences, .longest_sequence = longest};
    make_room(rows);
    Context<S> context = arena_->context(rows, {offsets_.data(), sequences}, longest);
    context.gpu = &gpu_;
    give_weights(context);
    context.inputs[0] = tokens_.data();
    try {
      tokens_.copy_from(tokens, stream());
      offsets_.copy_from(offsets, stream());
      Run::forward(context);
    } catch (...) {
      gpu_.synchronize();  // a copy may still read what the caller has
      throw;
    }
    gpu::check(cudaMemcpyAsync(to.data(), context.outputs[0], to.size_bytes(), cudaMemcpyDeviceToHost, stream()),
               "the logits were not copied");
    gpu_.synchronize();
  }

  void make_room(const Rows& rows) {
    Rows room = arena_ ? arena_->capacity() : Rows{};
    if (room.hold(rows)) return;
    room = Model::room_for(rows, room);
    arena_.reset();  // the larger one comes in its place, not beside it, and last: with it there is room
    tokens_ = DeviceBuffer<std::int32_t>(room.tokens);
    offsets_ = DeviceBuffer<Index>(room.sequences + 1);
    arena_.emplace(view_of<G>, detail::graph_scratch<G, Backend>(room), room, detail::Seeds::none);
  }

  Gpu gpu_;
  TensorList tensors_;
  gpu::DeviceParameters<S, Backend::rounds_values> parameters_;
  gpu::Mirrored<S> constants_;
  const S *parameters_on_device_ = nullptr, *constants_on_device_ = nullptr;
  detail::DoneOnce sent_;
  DeviceBuffer<Index> offsets_;
  DeviceBuffer<std::int32_t> tokens_;
  std::optional<detail::Arena<S, DeviceBuffer<S>>> arena_;
  std::vector<S> logits_;
};

}  // namespace simplx
