// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/generate/inference.hpp
/// Inference: the weights of a model and its forward pass, nothing else; no backward is compiled or kept room for.
///
///     Inference<logits_of<tiny>> net;
///     load_checkpoint(path, net);
///     net.logits(tokens);                       // of a whole sequence; stream.hpp: of one token after the other
///     net.logits(batch);                        // of several sequences
///     net.logits(tokens, to);                   // into memory of the caller

#include <simplx/cpu/cpu.hpp>
#include <simplx/cpu/threads.hpp>
#include <simplx/cpu/workspace.hpp>
#include <simplx/generate/logits_model.hpp>
#include <simplx/ops/stack.hpp>
#include <simplx/train/glob.hpp>
#include <simplx/train/initialise.hpp>
#include <simplx/train/micro_batches.hpp>

#include <atomic>
#include <concepts>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// Work that the first of several threads does, while the others wait for it.
class DoneOnce {
 public:
  template <class F>
  void operator()(const F& work) {
    if (state_->done.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(state_->mutex);
    if (state_->done.load(std::memory_order_relaxed)) return;
    work();
    state_->done.store(true, std::memory_order_release);
  }
  /// It has to be done anew. No other thread may wait for it meanwhile.
  void again() { state_->done.store(false, std::memory_order_relaxed); }

 private:
  struct State {  // elsewhere, so that its owner can be moved, and is of no use then
    std::atomic<bool> done{false};
    std::mutex mutex;
  };
  std::unique_ptr<State> state_ = std::make_unique<State>();
};

}  // namespace detail

/// The weights of a model and its forward pass: logits of whole sequences, without a backward.
template <auto const& model, class Backend_ = Cpu<float>>
class Inference : public detail::LogitsModel<model> {
  using Model = detail::LogitsModel<model>;

 public:
  using Backend = Backend_;
  using S = typename Backend::Scalar;
  using G = typename Model::G;
  using Run = Execute<G, Backend>;
  static_assert(detail::runs_on_host<Backend>());

  /// Initial values, until others are loaded.
  ///
  /// Errors  throws Error for less than one thread, or if the system does not start them all
  explicit Inference(const InferenceOptions& options = {})
      : team_(options.threads),
        tensors_(tensors_of<model>()),
        parameters_(G::layout.parameters),
        constants_(G::layout.constants),
        packed_(G::layout.packed_elements) {
    if (options.initial_values) initialise(tensors_.parameters, options.seed, parameters_.data());
    initialise(tensors_.constants, options.seed, constants_.data());
  }

  const TensorList& tensors() const { return tensors_; }
  /// To be filled in the layout of tensors(), which is that of a trainer of the model. Ask anew for each change, of one
  /// tensor, too: kernels read a prepared copy, made by the next evaluation.
  std::span<S> parameters() {
    prepared_.again();
    return parameters_.span();
  }
  std::span<S> constants() { return constants_.span(); }
  /// To be read, also while streams run on other threads.
  std::span<const S> parameters() const { return parameters_.span(); }
  std::span<const S> constants() const { return constants_.span(); }
  /// One of them by its name in tensors(), in place.
  ///
  /// Errors  throws Error for an unknown name, with the nearest ones
  std::span<S> parameter(std::string_view name) {
    return slice_of(tensors_.parameters, parameters(), name, "parameter");
  }
  std::span<S> constant(std::string_view name) {
    return slice_of(tensors_.constants, constants(), name, "constant");
  }
  std::span<const S> parameter(std::string_view name) const {
    return slice_of(tensors_.parameters, parameters(), name, "parameter");
  }
  std::span<const S> constant(std::string_view name) const {
    return slice_of(tensors_.constants, constants(), name, "constant");
  }

  /// Logits of a whole sequence, (tokens, vocab), of a classifier (1, classes), valid until the next call.
  ///
  /// Errors  throws Error if there is no token, one is out of range, or the model's positions end before
  /// Cost    a forward pass over all tokens, of which all threads share large products; allocates if none so long came
  ///         before
  std::span<const S> logits(std::span<const std::int32_t> tokens) {
    const Context<S> context = begin(tokens);
    Run::forward(context);
    return {context.outputs[0], Model::logits_of_all(tokens)};
  }
  /// The same, computed where the caller wants them: `to` has as many numbers.
  ///
  /// Errors  throws Error also if it has more or fewer
  void logits(std::span<const std::int32_t> tokens, std::span<S> to) {
    Model::check_room(std::ssize(tokens), Model::logits_of_all(tokens), to.size());
    Context<S> context = begin(tokens);
    context.outputs[0] = to.data();
    Run::forward(context);
  }

  /// Logits of the sequences of a batch, one after the other, (tokens, vocab), of a classifier (sequences, classes),
  /// valid until the next call. Labels are not read.
  ///
  /// Errors  throws Error if there is no sequence, one has no token, a token is out of range, or the model's positions
  ///         end before
  /// Cost    a forward pass over all tokens. Short sequences that follow one another run together, up to 64 tokens of
  ///         them, on one thread; more are shared out among all. So their logits are those of each alone to rounding,
  ///         and the number of threads changes no bits. Allocates: each thread has room for its longest sequence
  std::span<const S> logits(const std::same_as<TokenBatch> auto& batch) {
    Model::checked_lengths(batch);
    results_.resize(Model::logits_before(batch, batch.sequences()));
    logits(batch, results_);
    return results_;
  }
  /// The same, computed where the caller wants them: `to` has as many numbers.
  ///
  /// Errors  throws Error also if it has more or fewer
  void logits(const std::same_as<TokenBatch> auto& batch, std::span<S> to) {
    const Index longest = Model::checked_lengths(batch);
    Model::check_room(std::ssize(Model::tokens_of(batch)), Model::logits_before(batch, batch.sequences()), to.size());
    MicroBatches parts(batch.sequences(), longest, Model::together(), 1);
    parts.divide(batch);
    const int busy = static_cast<int>(std::min<Index>(team_.size(), parts.count()));
    make_room(parts.capacity(), busy);
    prepare(&team_);
    std::atomic<Index> next = 0;
    const auto evaluate = [&](int member, cpu::Team* team) {
      for (Index part = next++; part < parts.count(); part = next++) {
        const Index first = parts.begin(part), last = parts.begin(part + 1);
        MicroBatchWorkspace<G, Backend>& workspace = workspaces_[static_cast<std::size_t>(member)];
        Context<S> context = with_weights(workspace.context_of(batch.segments(), first, last));
        context.team = team;
        context.inputs[0] = batch.tokens.data() + batch.offsets[static_cast<std::size_t>(first)];
        context.outputs[0] = to.data() + Model::logits_before(batch, first);
        Run::forward(context);
      }
    };
    if (busy == 1) return evaluate(0, &team_);
    team_.run([&](int member) {
      if (member < busy) evaluate(member, nullptr);
    });
  }

  /// The context with the addresses of the weights, which its team prepares where they have changed; for several
  /// threads at once.
  Context<S> give_weights(const Context<S>& context) {
    prepare(context.team);
    return with_weights(context);
  }

 private:
  void prepare(cpu::Team* team) {
    prepared_([&] {
      const int parts = team ? team->size() : 1;
      const auto part = [&](int member) {
        Run::prepare(parameters_.data(), packed_.data(), /*turned*/ nullptr, member, parts);
      };
      parts > 1 ? team->run(part) : part(0);
    });
  }
  Context<S> with_weights(Context<S> context) const {
    context.parameters = parameters_.data();
    context.constants = constants_.data();
    context.packed = packed_.data();
    return context;
  }
  /// The context of a forward pass over these tokens.
  Context<S> begin(std::span<const std::int32_t> tokens) {
    const Index length = Model::checked_length(tokens);
    make_room(Rows{.tokens = length}, 1);
    offsets_[1] = length;
    Context<S> context = workspaces_[0].context(Rows{.tokens = length}, {offsets_, 1}, length);
    context.team = &team_;
    context.inputs[0] = tokens.data();
    return give_weights(context);
  }
  /// So many workspaces that hold these rows at least.
  void make_room(const Rows& rows, int threads) {
    Rows room = workspaces_.empty() ? Rows{} : workspaces_[0].capacity();
    if (!room.hold(rows)) {
      room = Model::room_for(rows, room);
      workspaces_.clear();
    }
    while (std::ssize(workspaces_) < threads) workspaces_.emplace_back(room, detail::Seeds::none);
  }

  cpu::Team team_;
  TensorList tensors_;
  cpu::Buffer<S> parameters_, constants_, packed_;
  std::vector<MicroBatchWorkspace<G, Backend>> workspaces_;
  std::vector<S> results_;
  Index offsets_[2] = {0, 0};
  detail::DoneOnce prepared_;
};

}  // namespace simplx
