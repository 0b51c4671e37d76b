// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/trainer.cuh
/// Trainer on a GPU: what train/trainer.hpp does, with the same names, options, initial values, masks of dropout and
/// states, so that a training saved on one backend goes on on the other.
///
///     Trainer<model, Cuda<>> trainer{{.batch = 64}};
///     trainer.step(batch, AdamW{.learning_rate = 1e-3});
///
/// All sequences of a batch run at once. Parameters, moments and gradient stay on the device; a step copies tokens
/// there and two numbers back. From the second batch of equal sizes on, forward and backward are one graph of CUDA,
/// started with one call (not where dropout draws from numbers of the step). Sums are taken in an order of sizes alone,
/// so a training has the same bits each time; those of a step in parts differ by rounding from those of the step at
/// once, and `threads` means nothing here.
/// Spans are copies on the host, valid until the next call; what is written there counts from that call on.

#include <simplx/cuda/mirrored.cuh>
#include <simplx/cuda/ops.cuh>
#include <simplx/cuda/recorded.cuh>
#include <simplx/cuda/update.cuh>
#include <simplx/train/trainer.hpp>

#include <cmath>
#include <optional>

namespace simplx::inline SIMPLX_TARGET {

template <auto const& model, Precision precision>
class Trainer<model, Cuda<precision>> {
 public:
  using Backend = Cuda<precision>;
  using S = typename Backend::Scalar;
  using G = GraphOf<model>;
  using Run = Execute<G, Backend>;
  using Model = detail::TrainedModel<G>;
  static_assert(G::input_number("tokens") >= 0 && G::input_number("labels") >= 0,
                "simplx: Trainer needs a model with the inputs indices(\"tokens\", ...) and indices(\"labels\", ...)");

  /// Errors  throws Error if there is no GPU, or if its memory is short
  explicit Trainer(const TrainerOptions& options = {})
      : options_(checked(options, Model::longest_sequence())),
        tensors_(tensors_of<model>()),
        parameters_(G::layout.parameters),
        constants_(G::layout.constants),
        first_moment_(G::layout.parameters),
        second_moment_(G::layout.parameters),
        gradient_(G::layout.parameters),
        arena_(view_of<G>, detail::graph_scratch<G, Backend>(capacity()), capacity()),
        tokens_(capacity().tokens),
        labels_(capacity().count(Model::labelled_axis())),
        offsets_(options_.batch + 1),
        scale_(1),
        totals_(2),
        evaluated_loss_(1),
        runs_(settings_runs(tensors_.parameters, options.groups)) {
    if (options.laws) tensors_.parameters = options.laws(std::move(tensors_.parameters));
    initialise(tensors_.parameters, options.seed, parameters_.host(stream()).data());
    initialise(tensors_.constants, options.seed, constants_.host(stream()).data());
    gpu_.reserve(G::input_number("tokens"), capacity().tokens);
    clear();
  }

  const TensorList& tensors() const { return tensors_; }
  const TrainerOptions& options() const { return options_; }
  std::span<S> parameters() { return parameters_.host(stream()); }
  std::span<S> constants() { return constants_.host(stream()); }
  std::span<S> parameter(std::string_view name) {
    for (const TensorInfo& tensor : tensors_.parameters) {
      if (tensor.name == name) return parameters().subspan(tensor.offset, tensor.size());
    }
    throw Error("the model has no parameter named '" + std::string(name) + "'");
  }
  /// Bytes of all buffers on the device.
  Index bytes() const {
    const Index elements = 4 * parameters_.size() + constants_.size() + arena_.size();
    return elements * static_cast<Index>(sizeof(S)) + (tokens_.size() + labels_.size()) * 4;
  }
  long steps() const { return steps_; }

  /// What continues this training; its buffers are views of this trainer's copies on the host.
  ///
  /// Errors  throws if parts of a step wait for their update
  TrainerState<S> state() {
    if (!parts_.empty()) throw Error("a step is half accumulated", "call update or discard before taking the state");
    return {parameters(), first_moment_.host(stream()), second_moment_.host(stream()), optimiser_,
            steps_, moment_steps_, options_.seed};
  }
  /// Goes on from a state: its buffers are copied, unless they are this trainer's own, filled in place.
  ///
  /// Errors  throws if the state is of other sizes or another seed; then nothing has changed
  void restore(const TrainerState<S>& state) {
    discard();
    const TrainerState<S> own = this->state();
    check_same_training(state, own);
    const auto take = [](std::span<S> from, std::span<S> to) {
      if (from.data() != to.data()) std::ranges::copy(from, to.begin());
    };
    take(state.parameters, own.parameters);
    take(state.first_moments, own.first_moments);
    take(state.second_moments, own.second_moments);
    optimiser_ = state.optimiser;
    steps_ = state.steps, moment_steps_ = state.moment_steps;
  }

  /// Forward, backward, clip and update over a batch, by AdamW, Sgd or another optimiser.
  ///
  /// Errors  throws if a token or label is out of range, or the batch does not fit; then nothing has changed
  /// Cost    three times the FLOPs of a forward pass; waits for the device once
  template <OptimiserOf<S> Optimiser = AdamW>
  StepResult step(const TokenBatch& batch, const Optimiser& optimiser) {
    discard();
    check(batch);
    add_gradient(batch, labelled(batch));
    return update(optimiser);
  }

  /// Adds the gradient of a part of a step's sequences; `labelled` is the number of labels in all parts.
  ///
  /// Errors  throws if the part or the step does not fit; then the step's parts so far are discarded
  void accumulate(const TokenBatch& part, Index labelled) {
    try {
      check(part);
      add_gradient(part, labelled);
    } catch (...) {
      discard();
      throw;
    }
  }

  /// Forgets the parts of a step that were accumulated and not used by an update; so do `step` and `gradient`.
  void discard() {
    if (!parts_.empty()) clear();
    parts_ = {};
  }

  /// Clips the accumulated gradient and updates the parameters. The moments begin anew when an optimiser of another
  /// kind takes over. Frozen parameters keep their bits, and their gradient is no part of the norm.
  ///
  /// Errors  throws if nothing was accumulated, or not as many labelled tokens as announced; the parts are discarded
  template <OptimiserOf<S> Optimiser = AdamW>
  StepResult update(const Optimiser& optimiser) {
    StepResult result = take_parts();
    const bool begins = optimiser_ != Optimiser::name;
    const auto segments = update_segments<S>(runs_, optimiser, begins ? 1 : moment_steps_ + 1);
    const Index chunks = update_chunks(segments), parts = squared_norm_parts(chunks);
    const auto bytes = std::as_bytes(std::span(segments));
    if (norm_parts_.size() < parts) norm_parts_ = DeviceBuffer<double>(parts);
    if (segments_.size() < std::ssize(bytes)) segments_ = DeviceBuffer<std::byte>(std::ssize(bytes));
    segments_.copy_from(bytes, stream());
    const auto* table = reinterpret_cast<decltype(segments.data())>(segments_.data());
    const auto count = static_cast<int>(segments.size());
    squared_norm(stream(), table, count, chunks, gradient_.data(), norm_parts_.data());
    const UpdateBuffers<S> buffers{parameters_.changed_device(stream()), gradient_.data(),
                                   first_moment_.changed_device(stream()), second_moment_.changed_device(stream())};
    simplx::update(stream(), table, count, chunks, buffers, norm_parts_.data(), options_.clip, begins, totals_.data(),
                   totals_.data() + 1);
    read_totals(result);
    if (!result.finite) {
      result.culprit = first_broken_gradient();
      clear();
      return result;
    }
    optimiser_ = Optimiser::name;
    moment_steps_ = begins ? 1 : moment_steps_ + 1;
    ++steps_;
    clear_loss();
    return result;
  }

  /// The loss and the gradient of a batch, without an update; the gradient is in the layout of parameters().
  ///
  /// Errors  throws if the gradient is not as long as parameters(), or as step does
  StepResult gradient(const TokenBatch& batch, std::span<S> gradient) {
    check_gradient_size(std::ssize(gradient), parameters_.size());
    discard();
    check(batch);
    add_gradient(batch, labelled(batch));
    StepResult result = take_parts();
    gradient_.copy_to(gradient, stream());
    read_totals(result);
    clear();
    return result;
  }

  /// Mean loss over the labelled tokens (or sequences) of a batch, in nats; forward only.
  double loss(const TokenBatch& batch) {
    check(batch);
    const Context<S> context = prepare(batch, {});
    Run::forward(context);
    sum(stream(), context.outputs[0], rows(context), evaluated_loss_.data());
    double loss = 0;
    evaluated_loss_.copy_to({&loss, 1}, stream());
    gpu_.synchronize();
    return loss / static_cast<double>(std::max<Index>(labelled(batch), 1));
  }

  /// Logits of one sequence of tokens, (tokens, vocab) or (1, classes), valid until the next call.
  std::span<const S> logits(std::span<const std::int32_t> tokens) {
    const TokenBatch batch = unlabelled(tokens);
    check(batch);
    const Context<S> context = prepare(batch, {});
    Run::forward(context);
    logits_.resize(static_cast<std::size_t>(rows(context) * vocab()));
    const S* place = Address<G>::template value<Model::logits_node()>(context);
    simplx::check(cudaMemcpyAsync(logits_.data(), place, sizeof(S) * logits_.size(), cudaMemcpyDeviceToHost, stream()),
                  "the logits were not copied");
    gpu_.synchronize();
    return logits_;
  }

  /// Columns of the logits: tokens, or classes.
  static constexpr Index vocab() { return Model::classes(); }
  /// Tokens of the longest sequence that the model's positions allow.
  static constexpr Index longest_sequence() { return Model::longest_sequence(); }

 private:
  static Index labelled(const TokenBatch& batch) { return labelled_rows(batch, Model::labelled_axis()); }
  /// Rows of the loss.
  static Index rows(const Context<S>& context) { return context.rows[static_cast<int>(Model::labelled_axis())]; }
  const GpuStream& stream() const { return gpu_.stream(); }

  Rows capacity() const {
    return {.tokens = options_.batch * options_.context, .sequences = options_.batch,
            .longest_sequence = options_.context};
  }
  void check(const TokenBatch& batch) const {
    check_batch(batch, {options_.batch, options_.context, Model::tokens_known(), vocab(), Model::labelled_axis()});
  }

  /// Clears what was accumulated.
  void clear() {
    gradient_.fill_with_zero(stream());
    clear_loss();
  }
  void clear_loss() { totals_.fill_with_zero(stream()); }

  /// Copies a batch to the device; what its evaluation needs.
  Context<S> prepare(const TokenBatch& batch, const Randomness& random) {
    const Index first = batch.offsets.front(), last = batch.offsets.back(), sequences = batch.sequences();
    host_offsets_.clear();
    Index longest = 0;
    for (Index b = 0; b <= sequences; ++b) {
      host_offsets_.push_back(batch.offsets[b] - first);
      if (b > 0) longest = std::max(longest, batch.offsets[b] - batch.offsets[b - 1]);
    }
    const auto tokens = std::span(batch.tokens).subspan(first, last - first);
    const bool by_token = Model::labelled_axis() == Axis::tokens;
    const auto labels = std::span(batch.labels).subspan(by_token ? first : 0, by_token ? last - first : sequences);
    tokens_.copy_from(tokens, stream());
    labels_.copy_from(labels, stream());
    offsets_.copy_from(host_offsets_, stream());
    gpu_.sort(G::input_number("tokens"), tokens);
    Context<S> context =
        arena_.context({.tokens = last - first, .sequences = sequences, .longest_sequence = longest},
                       {offsets_.data(), sequences}, longest);
    context.gpu = &gpu_;
    context.parameters = parameters_.device(stream());
    context.constants = constants_.device(stream());
    context.gradients = gradient_.data();
    context.random = random;
    context.inputs[G::input_number("tokens")] = tokens_.data();
    context.inputs[G::input_number("labels")] = labels_.data();
    return context;
  }

  /// Adds the gradient of a part, for the mean over so many labels.
  void add_gradient(const TokenBatch& part, Index labelled) {
    const Index first = parts_.sequences();
    parts_.add(part.sequences(), this->labelled(part), labelled, options_.sequences_per_step);
    const std::uint64_t key = bits(key_of(options_.seed, "dropout"), static_cast<std::uint64_t>(steps_));
    const Context<S> context = prepare(part, {.training = true, .key = key, .first_sequence = first});
    const S scale = S(1) / static_cast<S>(std::max<Index>(labelled, 1));
    scale_.copy_from({&scale, 1}, stream());
    const auto run = [&] {
      Run::forward(context);
      sum<Write::accumulate>(stream(), context.outputs[0], rows(context), totals_.data());
      fill(stream(), context.output_gradients[0], rows(context), scale_.data());
      Run::backward(context);
    };
    const Rows sizes{.tokens = part.offsets.back() - part.offsets.front(), .sequences = part.sequences(),
                     .longest_sequence = context.longest};
    if (draws<G>() || sizes.tokens != sizes_.tokens || sizes.sequences != sizes_.sequences ||
        sizes.longest_sequence != sizes_.longest_sequence) {
      run();  // once as it is: products choose their algorithms then
      recorded_.reset();
      sizes_ = sizes;
      return;
    }
    if (!recorded_) recorded_.emplace(stream(), run);
    recorded_->run(stream());
  }
  /// Whether a graph, or one of its stacks' layers, has dropout.
  template <class Of>
  static constexpr bool draws() {
    bool any = false;
    detail::unroll<0, Of::count>([&]<int i>(std::integral_constant<int, i>) {
      any |= Of::flat.label[i].op == Tag("dropout");
      if constexpr (Of::table.info[i].stack) {
        using Stack = typename Of::template layers_of<i>;
        for (int layer = 0; layer < Stack::layers; ++layer) {
          Stack::with_graph(layer, [&]<class Child>(std::type_identity<Child>) { any |= draws<Child>(); });
        }
      }
    });
    return any;
  }

  /// Ends the accumulation. The gradient stays on the device.
  StepResult take_parts() {
    try {
      return parts_.take();
    } catch (...) {
      clear();
      throw;
    }
  }
  /// Reads loss and norm.
  void read_totals(StepResult& result) {
    double totals[2] = {};
    totals_.copy_to(totals, stream());
    gpu_.synchronize();
    result.loss = totals[0] / static_cast<double>(std::max<Index>(result.labelled, 1));
    result.gradient_norm = totals[1];
    result.finite = std::isfinite(result.loss) && std::isfinite(result.gradient_norm);
  }
  std::string first_broken_gradient() {
    std::vector<S> gradient(static_cast<std::size_t>(gradient_.size()));
    gradient_.copy_to(gradient, stream());
    gpu_.synchronize();
    return first_broken(tensors_.parameters, gradient.data());
  }

  TrainerOptions options_;
  Gpu gpu_;
  TensorList tensors_;
  Mirrored<S> parameters_, constants_, first_moment_, second_moment_;
  DeviceBuffer<S> gradient_;
  Arena<S, DeviceBuffer<S>> arena_;
  DeviceBuffer<std::int32_t> tokens_, labels_;
  DeviceBuffer<Index> offsets_;
  DeviceBuffer<S> scale_;        ///< of a loss: one over the labels of the step
  DeviceBuffer<double> totals_;  ///< the loss, summed over the labels of all parts; the norm of the gradient
  DeviceBuffer<double> evaluated_loss_, norm_parts_;
  DeviceBuffer<std::byte> segments_;  ///< of an optimiser's kind
  std::vector<SettingsRun> runs_;
  std::vector<Index> host_offsets_;
  std::vector<S> logits_;
  StepParts parts_;
  std::optional<Recorded> recorded_;  ///< forward and backward
  Rows sizes_{.tokens = -1};          ///< of the part that ran last
  std::string optimiser_;  // whose moments these are
  long steps_ = 0, moment_steps_ = 0;
};

}  // namespace simplx
