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
/// there and two numbers back. From the second batch of equal sizes on, a step is one graph of CUDA, copies and update
/// included: the host allocates nothing, starts it with one call and waits; not_recorded() tells if CUDA refuses that,
/// not_fused() what cuBLASLt refuses. Sums are taken in an order of sizes alone, so a training has the same bits each
/// time; those of a step in parts differ by rounding from those of the step at once, and `threads` means nothing here.
/// Of a model whose tokens see ahead the head computes the labelled ones, and less than a 32nd of all tokens beside
/// them (labelled_rows.cuh): from 0 to all, as a batch has them. How many those are is a size.
/// Spans are copies on the host, valid until the next call; what is written there counts from that call on.

#include <simplx/cuda/batch.cuh>
#include <simplx/cuda/graph_on.cuh>
#include <simplx/cuda/labelled_losses.cuh>
#include <simplx/cuda/labelled_rows.cuh>
#include <simplx/cuda/ops.cuh>
#include <simplx/cuda/recorded.cuh>
#include <simplx/cuda/updates.cuh>
#include <simplx/cuda/upload.cuh>
#include <simplx/train/trainer.hpp>

#include <cmath>

namespace simplx::inline SIMPLX_TARGET {

template <auto const& model, Precision precision>
class Trainer<model, Cuda<precision>> {
 public:
  using Backend = Cuda<precision>;
  using S = typename Backend::Scalar;
  using G = gpu::GraphOn<gpu::TrainedRoot<model>, Backend>;
  using Run = Execute<G, Backend>;
  using Model = detail::TrainedModel<G>;
  static constexpr bool gathers = gpu::LabelledRoot<model>::gathers;  ///< its head computes labelled tokens alone
  static_assert(Model::template is_trainable<gathers>());
  static_assert(Model::takes_sequences_together());

  /// Takes all memory, on the device, and draws the initial values.
  ///
  /// Errors  as on the CPU, and throws Error if there is no GPU, or if its memory is short
  explicit Trainer(const TrainerOptions& options = {})
      : options_(checked(options, longest_sequence(), usual_context<model>(longest_sequence()))),
        tensors_(tensors_in<G>()),
        parameters_(G::layout.parameters),
        constants_(G::layout.constants),
        updates_(tensors_.parameters, G::layout.parameters, options),
        gradient_(G::layout.parameters),
        arena_(view_of<G>, detail::graph_scratch<G, Backend>(capacity()), capacity()),
        batch_(capacity(), labelled_axis(), gathers),
        scale_(1),
        evaluated_loss_(1) {
    if (options.laws) tensors_.parameters = options.laws(std::move(tensors_.parameters));
    initialise(tensors_.parameters, options.seed, parameters_.host(stream()).data());
    initialise(tensors_.constants, options.seed, constants_.host(stream()).data());
    gpu_.reserve(G::input_number("tokens"), capacity().tokens);
    if constexpr (looks_labels_up()) gpu_.reserve(G::input_number("labels"), capacity().count(labelled_axis()));
    if constexpr (gathers) gpu_.reserve(gathered_input, capacity().tokens);
    clear();
  }

  const TensorList& tensors() const { return tensors_; }
  const TrainerOptions& options() const { return options_; }
  /// As on the CPU, in copies on the host: what is written is sent with the next step, and what a step changes is seen
  /// in the span that is asked for then.
  std::span<S> parameters() { return parameters_.host(stream()); }
  std::span<S> constants() { return constants_.host(stream()); }
  std::span<S> parameter(std::string_view name) {
    return slice_of(tensors_.parameters, parameters(), name, "parameter");
  }
  std::span<S> constant(std::string_view name) {
    return slice_of(tensors_.constants, constants(), name, "constant");
  }
  /// Bytes of all buffers on the device, its kernels and libraries aside.
  Index bytes() const {
    const std::size_t trained = parameters_.bytes() + constants_.bytes() + gradient_.bytes() + updates_.bytes();
    const std::size_t of_steps = batch_.bytes() + scale_.bytes() + evaluated_loss_.bytes() + gpu_.bytes();
    return static_cast<Index>(trained + of_steps) + arena_.size() * static_cast<Index>(sizeof(S));
  }
  long steps() const { return updates_.count().steps; }
  /// Why steps are not one graph of CUDA, but a call for each kernel; empty if they are, or have yet to come again.
  std::string not_recorded() const { return repeated_.refusal(); }
  /// Which products so far are finished by kernels of their own, as cuBLASLt refused the epilogue: a line for each
  /// kind, which are slower but right.
  std::vector<std::string> not_fused() const { return gpu_.products().not_fused(); }

  /// What continues this training; its buffers are views of this trainer's copies on the host.
  ///
  /// Errors  throws if parts of a step wait for their update
  TrainerState<S> state() {
    if (!parts_.empty()) throw Error("a step is half accumulated", "call update or discard before taking the state");
    return {parameters(), updates_.first_moments(stream()), updates_.second_moments(stream()), updates_.count(),
            options_.seed, rules_of(options_), constants()};
  }
  /// Goes on from a state: its buffers are copied, unless they are this trainer's own, filled in place.
  ///
  /// Errors  throws if the state is of other sizes, another seed, clip or groups; then nothing has changed but that
  ///         parts of a step are discarded
  void restore(const TrainerState<S>& state) {
    discard();
    updates_.restore(take_state(state, this->state()));
  }

  /// Forward, backward, clip and update over a batch, by AdamW, Sgd or another optimiser.
  ///
  /// Errors  throws if a token or label is out of range, the batch does not fit, or a number of the optimiser makes no
  ///         sense; then nothing has changed but that parts of another step are discarded
  /// Cost    three times the FLOPs of a forward pass; waits for the device once
  template <OptimiserOf<S> Optimiser = AdamW>
  StepResult step(const TokenBatch& batch, const Optimiser& optimiser) {
    updates_.check(optimiser);
    discard();
    check(batch);
    const Context<S> context = take(batch, labelled(batch));
    const auto update = update_of(optimiser);
    run(update.kind(), [&] {
      add_gradient(context);
      updates_.run(stream(), update);
    });
    StepResult result = parts_.take();
    finish(result, optimiser);
    return result;
  }
  template <class Other>
    requires(!OptimiserOf<Other, S>)
  StepResult step(const TokenBatch&, const Other&) {
    return detail::no_optimiser<S, Other>(), StepResult{};
  }

  /// Adds the gradient of a part of a step's sequences; `labelled` is the number of labels in all parts.
  ///
  /// Errors  throws if the part or the step does not fit; then the step's parts so far are discarded
  void accumulate(const TokenBatch& part, Index labelled) {
    try {
      check(part);
      const Context<S> context = take(part, labelled);
      run(nullptr, [&] { add_gradient(context); });
    } catch (...) {
      discard();
      throw;
    }
  }

  /// Forgets the parts of a step that were accumulated and not used by an update; so do `step` and `loss_and_gradient`.
  void discard() {
    if (!parts_.empty()) clear();
    parts_ = {};
  }

  /// Clips the accumulated gradient and updates the parameters. The moments begin anew when an optimiser of another
  /// kind takes over. Frozen parameters keep their bits, and their gradient is no part of the norm.
  ///
  /// Errors  throws if nothing was accumulated, or not as many labelled tokens as announced: then the parts are
  ///         discarded; and if a number of the optimiser makes no sense, or memory is short: then nothing has changed
  template <OptimiserOf<S> Optimiser = AdamW>
  StepResult update(const Optimiser& optimiser) {
    updates_.check(optimiser);
    const auto update = update_of(optimiser);  // may find no memory; the parts are there then
    StepResult result = take_parts();
    updates_.run(stream(), update);
    finish(result, optimiser);
    return result;
  }
  template <class Other>
    requires(!OptimiserOf<Other, S>)
  StepResult update(const Other&) {
    return detail::no_optimiser<S, Other>(), StepResult{};
  }

  /// The loss and the gradient of a batch, without an update; the gradient is in the layout of parameters().
  ///
  /// Errors  throws if the gradient is not as long as parameters(), or as step does
  StepResult loss_and_gradient(const TokenBatch& batch, std::span<S> gradient) {
    check_gradient_size(std::ssize(gradient), parameters_.size());
    discard();
    check(batch);
    const Context<S> context = take(batch, labelled(batch));
    run(nullptr, [&] { add_gradient(context); });
    StepResult result = take_parts();
    gradient_.copy_to(gradient, stream());
    updates_.totals().fetch(stream());
    read_totals(result);
    clear();
    double squared = 0;  // nvcc takes no vectors, as clip.hpp has
    for (const S g : gradient) squared += static_cast<double>(g * g);
    result.take_norm(std::sqrt(squared));
    if (!result.finite) result.culprit = first_broken(tensors_.parameters, gradient.data(), result.loss);
    return result;
  }

  /// Mean loss over the labelled tokens (or sequences) of a batch, in nats; forward only.
  double loss(const TokenBatch& batch) {
    check(batch);
    const Context<S> context = forward(batch);
    gpu::sum_losses(stream(), context.outputs[0], batch_.labels(), rows(context), evaluated_loss_.data());
    evaluated_loss_.fetch(stream());
    synchronize();
    return evaluated_loss_.host()[0] / static_cast<double>(std::max<Index>(labelled(batch), 1));
  }

  /// Logits of one sequence of tokens, (tokens, vocab) or (1, classes), valid until the next call.
  std::span<const S> logits(std::span<const std::int32_t> tokens) {
    const TokenBatch batch = unlabelled(tokens, Model::no_label(), labelled_axis());
    check(batch);
    const Context<S> context = forward(batch, true);
    constexpr int node = Model::logits_left();
    const S* place = Address<G>::template value<node>(context);
    const auto fetch = [&](auto& to) {
      to.resize(static_cast<std::size_t>(rows(context) * vocab()));
      gpu::check(cudaMemcpyAsync(to.data(), place, sizeof to[0] * to.size(), cudaMemcpyDeviceToHost, stream()),
                 "the logits were not copied");
      synchronize();
    };
    if constexpr (gpu::stores_bfloat16<Backend, G, node>) {
      std::vector<__nv_bfloat16> rounded;
      fetch(rounded);
      logits_.assign(rounded.begin(), rounded.end());
    } else {
      fetch(logits_);
    }
    return logits_;
  }

  /// Columns of the logits: tokens, or classes.
  static constexpr Index vocab() { return Model::classes(); }
  /// Tokens of the longest sequence that the model's positions allow.
  static constexpr Index longest_sequence() { return Model::longest_sequence(); }

 private:
  static constexpr int gathered_input = G::input_number(gpu::LabelledRoot<model>::rows);  ///< or -1
  static constexpr Axis labelled_axis() {
    if constexpr (gathers) {
      return Axis::tokens;
    } else {
      return Model::labelled_axis();
    }
  }
  /// Whether a table is trained by the labels that look it up.
  static constexpr bool looks_labels_up() {
    for (int i = 0; i < G::count; ++i) {
      const Info& info = G::table.info[i];
      if (!(G::flat.label[i].op == Tag("embedding")) || !G::fusion.wanted[i]) continue;
      const Info& index = G::table.info[info.arguments[1]];
      if (index.kind == Kind::indices && G::layout.input[info.arguments[1]] == G::input_number("labels")) return true;
    }
    return false;
  }
  static Index labelled(const TokenBatch& batch) { return labelled_rows(batch, labelled_axis()); }
  /// Rows of the loss, and of the logits.
  static Index rows(const Context<S>& context) { return context.rows_of(G::table.info[Model::loss_node()].shape); }
  const GpuStream& stream() const { return gpu_.stream(); }

  Rows capacity() const {
    const Index tokens = options_.batch * options_.context;
    return {.tokens = tokens, .sequences = options_.batch, .labelled = gathers ? tokens : 0,
            .longest_sequence = options_.context};
  }
  void check(const TokenBatch& batch) const {
    check_batch(batch, {options_.batch, options_.context, Model::tokens_known(), Model::labels_known(),
                        labelled_axis(), Model::ignores_labels()});
  }

  /// Clears what was accumulated.
  void clear() {
    gradient_.fill_with_zero(stream());
    updates_.clear_loss(stream());
  }

  void synchronize() {
    gpu_.synchronize();
    sending_ = false;
  }

  /// Lays a batch out for `send`, its head of all rows or of those with labels; what its evaluation needs.
  Context<S> prepare(const TokenBatch& batch, const Randomness& random, bool all_rows = false) {
    if (sending_) synchronize();  // the part before
    batch_.lay_out(batch, all_rows);
    if (random.training) gpu_.sort(G::input_number("tokens"), batch_.host_tokens());  // of embeddings' gradients alone
    if constexpr (looks_labels_up()) {
      if (random.training) gpu_.sort(G::input_number("labels"), batch_.host_labels());
    }
    gpu_.draw_from(random);
    const Rows& rows = batch_.rows();
    Context<S> context = arena_.context(rows, batch_.sequences(), rows.longest_sequence);
    context.gpu = &gpu_;
    context.parameters = parameters_.device(stream());
    gpu_.take_parameters(context.parameters, parameters_.rounded());
    context.constants = constants_.device(stream());
    context.gradients = gradient_.data();
    context.random = random;
    context.inputs[G::input_number("tokens")] = batch_.tokens();
    context.inputs[G::input_number("labels")] = batch_.labels();
    if constexpr (gathers) {
      gpu_.take_distinct(gathered_input, batch_.host_gathered());
      context.inputs[gathered_input] = batch_.gathered();
    }
    return context;
  }

  /// Copies to the device what was laid out.
  void send() {
    batch_.send(stream());
    gpu_.send();
    scale_.send(stream());
  }
  Context<S> forward(const TokenBatch& batch, bool all_rows = false) {
    const Context<S> context = prepare(batch, {}, all_rows);
    send();
    sending_ = true;
    Run::forward(context);
    return context;
  }

  /// Notes a part of a step, for the mean over so many labels, and lays it out.
  Context<S> take(const TokenBatch& part, Index labelled) {
    const Index first = parts_.sequences();
    parts_.add(part.sequences(), this->labelled(part), labelled, options_.sequences_per_step);
    const std::uint64_t key = detail::dropout_key(options_.seed, steps());
    Context<S> context = prepare(part, {.training = true, .key = key, .first_sequence = first});
    context.results_after_backward = true;
    scale_.host()[0] = S(1) / static_cast<S>(std::max<Index>(labelled, 1));
    return context;
  }
  void add_gradient(const Context<S>& context) {
    send();
    gpu::seed_losses(stream(), context.output_gradients[0], batch_.labels(), rows(context), scale_.data());
    Run::forward(context);
    Run::backward(context);
    gpu::sum_losses<Write::accumulate>(stream(), context.outputs[0], batch_.labels(), rows(context),
                                       updates_.totals().data());
  }

  template <class Optimiser>
  auto update_of(const Optimiser& optimiser) {
    if (!updates_.template has_room<Optimiser>()) {
      synchronize();
      repeated_.forget();
    }
    return updates_.lay_out(optimiser, stream(), parameters_, gradient_.data());
  }

  /// Work on batches of such sizes, and the kind of the update that comes after it, if any.
  struct Work {
    Index tokens, sequences, longest, gathered;
    const void* update;

    bool operator==(const Work&) const = default;
  };
  /// Does work on the batch that was laid out.
  template <class F>
  void run(const void* update, const F& f) {
    const Rows& rows = batch_.rows();
    sending_ = true;
    repeated_.run(stream(), {rows.tokens, rows.sequences, rows.longest_sequence, rows.labelled, update}, f);
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
  /// Waits for the totals, which are loss and norm.
  void read_totals(StepResult& result) {
    synchronize();
    const auto totals = updates_.totals().host();
    result.loss = totals[0] / static_cast<double>(std::max<Index>(result.labelled, 1));
    result.take_norm(totals[1]);
  }
  /// Behind an update: what it found, and whether the step counts.
  template <class Optimiser>
  void finish(StepResult& result, const Optimiser& optimiser) {
    read_totals(result);
    if (result.finite) return updates_.took(optimiser);
    result.culprit = updates_.first_broken_gradient(tensors_.parameters, stream(), gradient_.data(), result.loss);
    clear();
  }

  TrainerOptions options_;
  Gpu gpu_;
  TensorList tensors_;
  gpu::DeviceParameters<S, Backend::rounds_values> parameters_;
  gpu::Mirrored<S> constants_;
  gpu::DeviceUpdates<S> updates_;
  DeviceBuffer<S> gradient_;
  detail::Arena<S, DeviceBuffer<S>> arena_;
  gpu::BatchUpload batch_;
  gpu::Upload<S> scale_;  ///< of a loss: one over the labels of the step
  gpu::Download<double> evaluated_loss_;
  bool sending_ = false;  ///< what was laid out for the device may not have arrived
  std::vector<S> logits_;
  StepParts parts_;
  gpu::Repeated<Work> repeated_;
};

}  // namespace simplx
