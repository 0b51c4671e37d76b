// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/trainer.hpp
/// Trainer: parameters, gradients, moments and memory of a language model; one call for each optimiser step.
///
/// Data parallel over sequences, with the same bits for any number of threads: the sequences of a step take turns in
/// adding to one gradient (core/turn.hpp), and the norm is summed over fixed chunks. A thread runs one sequence at a
/// time, so that a whole forward and backward stays in cache, or several short ones (train/micro_batches.hpp), which
/// take their turn together. A step allocates nothing and waits for all threads four times.
///
/// Sequences are numbered over the whole step, so that a step in parts is the whole step, bit for bit where none run
/// together, as those of more than 32 tokens do not, and to rounding elsewhere:
///
///     const Index labelled = labelled_tokens(first) + labelled_tokens(second);
///     trainer.accumulate(first, labelled);
///     trainer.accumulate(second, labelled);
///     trainer.update(AdamW{.learning_rate = 1e-3});  // as step(both, ...), loss and norm included
///
/// A model with one label for each sequence is trained in the same way, by labelled_sequences.

#include <simplx/cpu/cpu.hpp>
#include <simplx/cpu/threads.hpp>
#include <simplx/cpu/workspace.hpp>
#include <simplx/ops/stack.hpp>
#include <simplx/train/batch.hpp>
#include <simplx/train/glob.hpp>
#include <simplx/train/gradient_sums.hpp>
#include <simplx/train/initialise.hpp>
#include <simplx/train/micro_batches.hpp>
#include <simplx/train/step_parts.hpp>
#include <simplx/train/trained_model.hpp>
#include <simplx/train/updates.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// Trains a model: step(batch, optimiser) is one step, of the same bits for any number of threads. On a CPU it may move
/// between steps; what was moved from can be assigned to, or end.
template <auto const& model, class Backend_ = Cpu<float>>
class Trainer {
 public:
  using Backend = Backend_;
  using S = typename Backend::Scalar;
  using G = GraphOf<model>;
  using Run = Execute<G, Backend>;
  using Model = detail::TrainedModel<G>;
  static_assert(detail::runs_on_host<Backend>());
  static_assert(Model::template is_trainable<0>());

  /// Takes all memory and draws the initial values.
  ///
  /// Errors  throws Error for options out of range, a context longer than the model's positions, a group that matches
  ///         no parameter, and threads that do not start
  explicit Trainer(const TrainerOptions& options = {})
      : options_(checked(options, longest_sequence(), usual_context<model>(longest_sequence()))),
        team_(options.threads),
        tensors_(tensors_of<model>()),
        parameters_(G::layout.parameters),
        constants_(G::layout.constants),
        packed_(2 * G::layout.packed_elements),
        updates_(tensors_.parameters, G::layout.parameters, options),
        turns_(options.batch),
        micro_batches_(options.batch, options_.context, detail::keeps_sequences_apart<G>()),
        losses_(static_cast<std::size_t>(options.batch)) {
    for (int t = 0; t < team_.size(); ++t) workspaces_.emplace_back(micro_batches_.capacity());
    if (options.laws) tensors_.parameters = options.laws(std::move(tensors_.parameters));
    initialise(tensors_.parameters, options.seed, parameters_.data());
    initialise(tensors_.constants, options.seed, constants_.data());
  }

  const TensorList& tensors() const { return tensors_; }
  const TrainerOptions& options() const { return options_; }
  /// All parameters, tensor after tensor in the order of tensors(), each from a multiple of 16 elements on, zeros
  /// between: longer than `parameters<model>`, which counts without these. What is written here the next step or
  /// evaluation reads.
  std::span<S> parameters() { return parameters_.span(); }
  /// What is not trained, laid out likewise: hyper-parameters and what was drawn.
  std::span<S> constants() { return constants_.span(); }
  /// One of them by its name in tensors(), in place.
  ///
  /// Errors  throws Error for an unknown name, with the nearest ones
  std::span<S> parameter(std::string_view name) {
    return slice_of(tensors_.parameters, parameters(), name, "parameter");
  }
  std::span<S> constant(std::string_view name) {
    return slice_of(tensors_.constants, constants(), name, "constant");
  }
  /// Bytes of all buffers.
  Index bytes() const {
    Index elements = parameters_.size() + updates_.size() + gradient_.size() + constants_.size() + packed_.size();
    for (const auto& workspace : workspaces_) elements += workspace.size();
    return elements * static_cast<Index>(sizeof(S));
  }
  long steps() const { return updates_.count().steps; }

  /// What continues this training bit for bit, on any number of threads; its buffers are views of this trainer's.
  ///
  /// Errors  throws if parts of a step wait for their update
  TrainerState<S> state() {
    if (!parts_.empty()) throw Error("a step is half accumulated", "call update or discard before taking the state");
    return {parameters_.span(), updates_.first_moments(), updates_.second_moments(), updates_.count(), options_.seed,
            rules_of(options_), constants_.span()};
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
  /// Cost    three times the FLOPs of a forward pass; no allocation
  template <OptimiserOf<S> Optimiser = AdamW>
  StepResult step(const TokenBatch& batch, const Optimiser& optimiser) {
    updates_.check(optimiser);
    discard();
    check(batch);
    add_gradient(batch, labelled(batch));
    return update(optimiser);
  }
  template <class Other>
    requires(!OptimiserOf<Other, S>)
  StepResult step(const TokenBatch&, const Other&) {
    return detail::no_optimiser<S, Other>(), StepResult{};
  }

  /// Adds the gradient of a part of a step's sequences; `labelled` is the number of labels in all parts, between which
  /// parameters stay as they are.
  ///
  /// Errors  throws if the part or the step does not fit; then the step's parts so far are discarded
  /// Cost    three times the FLOPs of a forward pass; parts of fewer sequences than threads leave threads idle, and so
  ///         do short ones that run together
  void accumulate(const TokenBatch& part, Index labelled) {
    try {
      check(part);
      add_gradient(part, labelled);
    } catch (...) {
      discard();
      throw;
    }
  }

  /// Forgets the parts of a step that were accumulated and not used by an update; so do `step` and `loss_and_gradient`.
  void discard() {
    if (!parts_.empty()) gradient_.clear();
    parts_ = {};
  }

  /// Clips the accumulated gradient and updates the parameters. The moments begin anew when an optimiser of another
  /// kind takes over. Frozen parameters keep their bits, and their gradient is no part of the norm.
  ///
  /// Errors  throws if nothing was accumulated, or not as many labelled tokens as announced: then the parts are
  ///         discarded; and if a number of the optimiser makes no sense: then nothing has changed
  template <OptimiserOf<S> Optimiser = AdamW>
  StepResult update(const Optimiser& optimiser) {
    updates_.check(optimiser);
    StepResult result = take_parts();
    try {
      updates_.step(optimiser, team_, tensors_.parameters, parameters_.data(), gradient_.folded().data(), result,
                    [&](Index begin, Index end) { gradient_.fold(begin, end); });
    } catch (...) {  // what an optimiser of the user's throws
      gradient_.clear();
      throw;
    }
    if (!result.finite) gradient_.clear();
    return result;
  }
  template <class Other>
    requires(!OptimiserOf<Other, S>)
  StepResult update(const Other&) {
    return detail::no_optimiser<S, Other>(), StepResult{};
  }

  /// The loss and the gradient of a batch, without an update; the gradient is in the layout of parameters(), and its
  /// norm with frozen ones, which are no part of a step's.
  ///
  /// Errors  throws if the gradient is not as long as parameters(), or as step does
  StepResult loss_and_gradient(const TokenBatch& batch, std::span<S> gradient) {
    check_gradient_size(std::ssize(gradient), parameters_.size());
    discard();
    check(batch);
    add_gradient(batch, labelled(batch));
    StepResult result = take_parts();
    gradient_.fold(0, parameters_.size());
    std::ranges::copy(gradient_.folded(), gradient.begin());
    gradient_.clear();
    result.take_norm(gradient_norm(gradient.data(), parameters_.size()));
    if (!result.finite) result.culprit = first_broken(tensors_.parameters, gradient.data(), result.loss);
    return result;
  }

  /// Mean loss over the labelled tokens (or sequences) of a batch, in nats; forward only.
  ///
  /// Errors  throws Error for a token or label out of range, or a batch that is larger than the options allow
  double loss(const TokenBatch& batch) {
    check(batch);
    prepare();
    micro_batches_.divide(batch);
    team_.run([&](int member) {
      for (Index m = member; m < micro_batches_.count(); m += team_.size()) {
        forward(batch, micro_batches_.begin(m), micro_batches_.begin(m + 1), member);
      }
    });
    double total = 0;
    for (Index b = 0; b < batch.sequences(); ++b) total += losses_[static_cast<std::size_t>(b)];
    return total / static_cast<double>(std::max<Index>(labelled(batch), 1));
  }

  /// Logits of one sequence of tokens, (tokens, vocab) or (1, classes), valid until the next call.
  ///
  /// Errors  as loss
  /// Cost    a forward pass, and the memory of a batch of one sequence
  std::span<const S> logits(std::span<const std::int32_t> tokens) {
    const TokenBatch batch = unlabelled(tokens, Model::no_label(), Model::labelled_axis());
    check(batch);
    prepare();
    const Context<S> context = forward(batch, 0, 1, 0);
    return {Address<G>::template value<Model::logits_left()>(context),
            static_cast<std::size_t>(rows(context) * vocab())};
  }

  /// Columns of the logits: tokens, or classes.
  static constexpr Index vocab() { return Model::classes(); }
  /// Tokens of the longest sequence that the model's positions allow.
  static constexpr Index longest_sequence() { return Model::longest_sequence(); }

 private:
  static Index labelled(const TokenBatch& batch) { return labelled_rows(batch, Model::labelled_axis()); }
  /// Rows of the loss.
  static Index rows(const Context<S>& context) { return context.rows[static_cast<int>(Model::labelled_axis())]; }

  void check(const TokenBatch& batch) const {
    check_batch(batch, {options_.batch, options_.context, Model::tokens_known(), Model::labels_known(),
                        Model::labelled_axis(), Model::ignores_labels()});
  }

  S* turned() { return packed_.data() + G::layout.packed_elements; }
  void prepare() {
    team_.run([&](int member) {
      Run::prepare(parameters_.data(), packed_.data(), turned(), member, team_.size());
    });
    prepared_for_parts_ = false;
  }

  /// Runs sequences first .. last forward and notes the loss of each.
  Context<S> forward(const TokenBatch& batch, Index first, Index last, int member, const Randomness& random = {}) {
    Context<S> context = workspaces_[static_cast<std::size_t>(member)].context_of(batch.segments(), first, last);
    const Index begin = batch.offsets[static_cast<std::size_t>(first)];
    context.parameters = parameters_.data();
    context.packed = packed_.data(), context.turned = turned();
    context.constants = constants_.data();
    context.random = random;
    context.inputs[G::input_number("tokens")] = batch.tokens.data() + begin;
    constexpr bool by_token = Model::labelled_axis() == Axis::tokens;
    context.inputs[G::input_number("labels")] = batch.labels.data() + (by_token ? begin : first);
    Run::forward(context);
    const S* losses = context.outputs[0];
    const std::int32_t* label = labels_of(context);
    for (Index s = first; s < last; ++s) {
      const Index* const offsets = context.segments.offsets + (s - first);
      const Index count = by_token ? offsets[1] - offsets[0] : 1;
      double total = 0;
      for (Index row = 0; row < count; ++row, ++losses) {
        if (*label++ != ignored_label) total += static_cast<double>(*losses);
      }
      losses_[static_cast<std::size_t>(s)] = total;
    }
    return context;
  }
  static const std::int32_t* labels_of(const Context<S>& context) {
    return static_cast<const std::int32_t*>(context.inputs[G::input_number("labels")]);
  }

  /// Adds the gradient of a part, for the mean over so many labelled tokens; its sequence b is number first + b of the
  /// step.
  void add_gradient(const TokenBatch& part, Index labelled) {
    const Index first = parts_.sequences();
    parts_.add(part.sequences(), this->labelled(part), labelled, options_.sequences_per_step);
    if (first == 0 || !prepared_for_parts_) prepare();  // the parts of a step have the same parameters
    prepared_for_parts_ = true;
    const std::uint64_t key = detail::dropout_key(options_.seed, steps());
    const S scale = S(1) / static_cast<S>(std::max<Index>(labelled, 1));
    micro_batches_.divide(part);
    turns_.start();
    team_.run([&](int member) {
      for (Index m = turns_.deal(); m < micro_batches_.count(); m = turns_.deal()) {
        detail::Turn turn(turns_, m);
        const Index begin = micro_batches_.begin(m), end = micro_batches_.begin(m + 1);
        Context<S> context =
            forward(part, begin, end, member, {.training = true, .key = key, .first_sequence = first + begin});
        gradient_.give_to(context);
        context.turn = &turn;
        const std::int32_t* const labels = labels_of(context);  // a row without one is no part of the mean
        for (Index row = 0; row < rows(context); ++row) {
          context.output_gradients[0][row] = labels[row] == ignored_label ? S(0) : scale;
        }
        Run::backward(context);
      }
    });
    for (Index b = 0; b < part.sequences(); ++b) parts_.add_loss(losses_[static_cast<std::size_t>(b)]);
  }

  /// Ends the accumulation: what it found. The gradient stays where it is.
  StepResult take_parts() {
    try {
      return parts_.take();
    } catch (...) {
      gradient_.clear();
      throw;
    }
  }

  TrainerOptions options_;
  cpu::Team team_;
  TensorList tensors_;
  cpu::Buffer<S> parameters_, constants_, packed_;  // packed for forward, then for backward
  Updates<S> updates_;
  GradientSums<G, S> gradient_;
  detail::Turns turns_;
  MicroBatches micro_batches_;
  std::vector<MicroBatchWorkspace<G, Backend>> workspaces_;
  std::vector<double> losses_;
  StepParts parts_;
  bool prepared_for_parts_ = false;  // since the last part, no loss or logits were asked for, maybe of other parameters
};

}  // namespace simplx
