// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/trainer.hpp
/// Trainer: parameters, gradients, moments and memory of a language model; one call for each optimiser step.
///
/// Data parallel over sequences, with the same bits for any number of threads: the sequences of a batch are
/// dealt to a fixed number of gradient *slots*, each slot adds its sequences in order, slots are added in
/// order, and the norm is summed over fixed chunks. Sequences run one at a time, so that a whole forward and
/// backward stays in cache. A step allocates nothing and waits for all threads four times.

#include <simplx/core/error.hpp>
#include <simplx/cpu/cpu.hpp>
#include <simplx/cpu/threads.hpp>
#include <simplx/cpu/workspace.hpp>
#include <simplx/ops/cross_entropy.hpp>
#include <simplx/ops/stack.hpp>
#include <simplx/train/adamw.hpp>
#include <simplx/train/batch.hpp>
#include <simplx/train/clip.hpp>
#include <simplx/train/initialise.hpp>

#include <cmath>
#include <string>
#include <vector>

namespace simplx {

struct TrainerOptions {
  Index batch = 8;         ///< sequences of a step at most
  Index context = 0;       ///< tokens of a sequence at most; the model's own limit unless given
  std::uint64_t seed = 0;  ///< of the initial values
  int threads = 1;
  int slots = 4;           ///< gradient copies; part of the result's bits, bounds the useful threads
  Index slot_bytes = Index(1) << 30;  ///< all gradient copies together take at most that much (one always exists)
  double clip = 1;         ///< limit of the gradient's norm; 0 is off
};

/// What a step did.
struct StepResult {
  double loss = 0;           ///< mean over the labelled tokens, nats per token
  double gradient_norm = 0;  ///< before clipping
  Index labelled = 0;        ///< tokens with a label
  bool finite = true;        ///< otherwise nothing was updated
  std::string culprit;       ///< then: the first parameter whose gradient is not finite, or "loss"
};

template <auto const& model, class Backend_ = Cpu<float>>
class Trainer {
 public:
  using Backend = Backend_;
  using S = typename Backend::Scalar;
  using G = GraphOf<model>;
  using Run = Execute<G, Backend>;
  static_assert(G::input_number("tokens") >= 0 && G::input_number("labels") >= 0,
                "simplx: Trainer needs a model with the inputs indices(\"tokens\", ...) and indices(\"labels\", ...)");

  explicit Trainer(const TrainerOptions& options = {})
      : options_(options),
        team_(options.threads),
        tensors_(tensors_of<model>()),
        parameters_(G::layout.parameters),
        constants_(G::layout.constants),
        packed_(G::layout.packed_elements),
        first_moment_(G::layout.parameters),
        second_moment_(G::layout.parameters),
        losses_(static_cast<std::size_t>(options.batch)),
        chunk_norms_(static_cast<std::size_t>(norm_chunks(G::layout.parameters))) {
    if (options.batch < 1) throw Error("batch is " + std::to_string(options.batch), "it must be at least 1");
    if (options.slots < 1) throw Error("slots is " + std::to_string(options.slots), "it must be at least 1");
    if (!options_.context) options_.context = longest_sequence();
    if (options_.context > longest_sequence()) {
      throw Error("context is " + std::to_string(options_.context) + ", the model's positions end at " +
                      std::to_string(longest_sequence()),
                  "choose a shorter context, or a model with a longer one");
    }
    const Index copy = G::layout.parameters * static_cast<Index>(sizeof(S));
    const Index slots = std::min<Index>({options.slots, options.batch, std::max<Index>(1, options.slot_bytes / copy)});
    for (Index s = 0; s < slots; ++s) slots_.emplace_back(G::layout.parameters);
    for (int t = 0; t < team_.size(); ++t) workspaces_.emplace_back(Rows{.tokens = options_.context});
    initialise(tensors_.parameters, options.seed, parameters_.data());
    initialise(tensors_.constants, options.seed, constants_.data());
    for (const TensorInfo& tensor : tensors_.parameters) {
      const Index begin = decay_runs_.empty() ? 0 : decay_runs_.back().end;
      const Index end = tensor.offset + round_up(tensor.size(), alignment);
      if (!decay_runs_.empty() && decay_runs_.back().decays == tensor.decays) {
        decay_runs_.back().end = end;
      } else {
        decay_runs_.push_back({begin, end, tensor.decays});
      }
    }
  }

  const TensorList& tensors() const { return tensors_; }
  const TrainerOptions& options() const { return options_; }
  std::span<S> parameters() { return parameters_.span(); }
  std::span<S> constants() { return constants_.span(); }
  std::span<S> parameter(std::string_view name) { return slice(name, parameters_); }
  /// Bytes of all buffers.
  Index bytes() const {
    Index elements = 3 * parameters_.size() + constants_.size() + packed_.size();
    for (const auto& slot : slots_) elements += slot.size();
    for (const auto& workspace : workspaces_) elements += workspace.size();
    return elements * static_cast<Index>(sizeof(S));
  }
  int slots() const { return static_cast<int>(slots_.size()); }
  long steps() const { return steps_; }

  /// Forward, backward, clip and AdamW over a batch.
  ///
  /// Errors  throws if a token or label is out of range, or the batch does not fit; then nothing has changed
  /// Cost    three times the FLOPs of a forward pass; no allocation
  StepResult step(const TokenBatch& batch, const AdamW& optimiser) {
    StepResult result;
    compute_gradient(batch, result);
    const Index chunks = norm_chunks(parameters_.size());
    team_.run([&](int member) {
      for (Index chunk = member; chunk < chunks; chunk += team_.size()) {
        const auto [begin, end] = chunk_range(chunk);
        for (std::size_t s = 1; s < slots_.size(); ++s) add_and_clear(slots_[s].data(), slots_[0].data(), begin, end);
        chunk_norms_[static_cast<std::size_t>(chunk)] =
            chunk_squared_norm(slots_[0].data(), parameters_.size(), chunk);
      }
    });
    double squared = 0;
    for (const double part : chunk_norms_) squared += part;
    result.gradient_norm = std::sqrt(squared);
    result.finite = std::isfinite(result.loss) && std::isfinite(result.gradient_norm);
    if (!result.finite) {
      result.culprit = first_broken_gradient();
      std::ranges::fill(slots_[0], S(0));
      return result;
    }
    ++steps_;
    const double factor = clip_factor(result.gradient_norm, options_.clip);
    team_.run([&](int member) {
      for (Index chunk = member; chunk < chunks; chunk += team_.size()) {
        const auto [begin, end] = chunk_range(chunk);
        for (const DecayRun& run : decay_runs_) {
          const Index from = std::max(begin, run.begin), to = std::min(end, run.end);
          if (from >= to) continue;
          adamw_update(optimiser, steps_, run.decays, factor, parameters_.data(), slots_[0].data(),
                       first_moment_.data(), second_moment_.data(), from, to);
        }
      }
    });
    return result;
  }

  /// The loss and the gradient of a batch, without an update; the gradient is in the layout of parameters().
  StepResult gradient(const TokenBatch& batch, std::span<S> gradient) {
    StepResult result;
    compute_gradient(batch, result);
    std::ranges::fill(gradient, S(0));
    for (auto& slot : slots_) add_and_clear(slot.data(), gradient.data(), 0, parameters_.size());
    return result;
  }

  /// Mean loss over the labelled tokens of a batch, nats per token; forward only.
  double loss(const TokenBatch& batch) {
    StepResult result;
    check(batch, result);
    prepare();
    team_.run([&](int member) {
      for (Index b = member; b < sequences(batch); b += team_.size()) forward(batch, b, member);
    });
    add_losses(batch, result);
    return result.loss;
  }

  /// Logits of one sequence of tokens, (tokens, vocab), valid until the next call.
  std::span<const S> logits(std::span<const std::int32_t> tokens) {
    const TokenBatch batch = one_sequence(tokens);
    StepResult ignored;
    check(batch, ignored);
    prepare();
    const Context<S> context = forward(batch, 0, 0);
    return {Address<G>::template value<logits_node()>(context), tokens.size() * static_cast<std::size_t>(vocab())};
  }

  static constexpr Index vocab() { return G::table.info[logits_node()].shape.cols; }
  /// Tokens of the longest sequence that the model's positions allow.
  static constexpr Index longest_sequence() {
    Index longest = Index(1) << 30;
    for (int i = 0; i < G::count; ++i) {
      if (G::flat.label[i].op == Tag("positions")) {
        longest = std::min(longest, G::table.info[G::table.info[i].arguments[0]].shape.rows);
      }
    }
    return longest;
  }

 private:
  struct DecayRun {
    Index begin, end;
    bool decays;
  };
  struct Range {
    Index begin, end;
  };

  static constexpr int find_op(Tag op) {
    for (int i = 0; i < G::count; ++i) {
      if (G::flat.label[i].op == op) return i;
    }
    return -1;
  }
  static constexpr int logits_node() {
    static_assert(find_op("cross_entropy") >= 0, "simplx: Trainer needs a model that ends with cross_entropy(...)");
    return G::table.info[find_op("cross_entropy")].arguments[0];
  }
  static constexpr Index tokens_known() {
    constexpr int lookup = find_op("embedding");
    return lookup < 0 ? vocab() : G::table.info[G::table.info[lookup].arguments[0]].shape.rows;
  }
  static Index sequences(const TokenBatch& batch) { return static_cast<Index>(batch.offsets.size()) - 1; }
  Range chunk_range(Index chunk) const {
    return {chunk * norm_chunk, std::min((chunk + 1) * norm_chunk, parameters_.size())};
  }
  std::span<S> slice(std::string_view name, Buffer<S>& buffer) {
    for (const TensorInfo& tensor : tensors_.parameters) {
      if (tensor.name == name) return buffer.span().subspan(tensor.offset, tensor.size());
    }
    throw Error("the model has no parameter named '" + std::string(name) + "'");
  }

  void check(const TokenBatch& batch, StepResult& result) const {
    if (sequences(batch) < 1 || sequences(batch) > options_.batch) {
      throw Error("a batch of " + std::to_string(sequences(batch)) + " sequences for a trainer made for at most " +
                      std::to_string(options_.batch),
                  "raise TrainerOptions::batch");
    }
    for (Index b = 0; b < sequences(batch); ++b) {
      const Index length = batch.offsets[b + 1] - batch.offsets[b];
      if (length >= 1 && length <= options_.context) continue;
      throw Error("a sequence of " + std::to_string(length) + " tokens for a context of " +
                      std::to_string(options_.context),
                  "sequences have between one token and the context");
    }
    const auto end = static_cast<std::size_t>(batch.offsets.back());
    for (std::size_t i = 0; i < end; ++i) {
      const Index token = batch.tokens[i], label = batch.labels[i];
      if (token < 0 || token >= tokens_known() || (label != ignored_label && (label < 0 || label >= vocab()))) {
        throw Error("token " + std::to_string(token) + " with label " + std::to_string(label) + " at position " +
                        std::to_string(i) + ", but the model knows " + std::to_string(tokens_known()) + " tokens",
                    "tokens are in [0, vocab); a label of -100 carries no loss");
      }
      result.labelled += label != ignored_label;
    }
  }

  void prepare() {
    team_.run([&](int member) { Run::prepare(parameters_.data(), packed_.data(), member, team_.size()); });
  }

  /// Runs one sequence forward and notes its loss.
  Context<S> forward(const TokenBatch& batch, Index b, int member) {
    auto& workspace = workspaces_[static_cast<std::size_t>(member)];
    const Index begin = batch.offsets[b], length = batch.offsets[b + 1] - begin;
    Context<S> context = workspace.sequence(length);
    context.parameters = parameters_.data();
    context.packed = packed_.data();
    context.constants = constants_.data();
    context.inputs[G::input_number("tokens")] = batch.tokens.data() + begin;
    context.inputs[G::input_number("labels")] = batch.labels.data() + begin;
    Run::forward(context);
    double total = 0;
    for (Index row = 0; row < length; ++row) total += static_cast<double>(context.outputs[0][row]);
    losses_[static_cast<std::size_t>(b)] = total;
    return context;
  }

  void add_losses(const TokenBatch& batch, StepResult& result) {
    double total = 0;
    for (Index b = 0; b < sequences(batch); ++b) total += losses_[static_cast<std::size_t>(b)];
    result.loss = total / static_cast<double>(std::max<Index>(result.labelled, 1));
  }

  /// Leaves the gradient of the mean loss in the slots.
  void compute_gradient(const TokenBatch& batch, StepResult& result) {
    check(batch, result);
    prepare();
    const S scale = S(1) / static_cast<S>(std::max<Index>(result.labelled, 1));
    const Index slots = static_cast<Index>(slots_.size());
    team_.run([&](int member) {
      for (Index slot = member; slot < slots; slot += team_.size()) {
        for (Index b = slot; b < sequences(batch); b += slots) {
          Context<S> context = forward(batch, b, member);
          context.gradients = slots_[static_cast<std::size_t>(slot)].data();
          std::fill_n(context.output_gradients[0], batch.offsets[b + 1] - batch.offsets[b], scale);
          Run::backward(context);
        }
      }
    });
    add_losses(batch, result);
  }

  static void add_and_clear(S* from, S* to, Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      to[i] += from[i];
      from[i] = 0;
    }
  }

  std::string first_broken_gradient() const {
    for (const TensorInfo& tensor : tensors_.parameters) {
      for (Index i = 0; i < tensor.size(); ++i) {
        if (!std::isfinite(slots_[0][tensor.offset + i])) return tensor.name;
      }
    }
    return "loss";
  }

  static TokenBatch one_sequence(std::span<const std::int32_t> tokens) {
    TokenBatch batch;
    batch.tokens.assign(tokens.begin(), tokens.end());
    batch.labels.assign(tokens.size(), ignored_label);
    batch.offsets = {0, static_cast<Index>(tokens.size())};
    return batch;
  }

  /// The arena of one thread, for one sequence at a time.
  class Sequence : public Workspace<G, Backend> {
   public:
    using Workspace<G, Backend>::Workspace;
    Context<S> sequence(Index length) {
      offsets_[1] = length;
      return this->context(Rows{.tokens = length}, {offsets_, 1}, length);
    }

   private:
    Index offsets_[2] = {0, 0};
  };

  TrainerOptions options_;
  Team team_;
  TensorList tensors_;
  Buffer<S> parameters_, constants_, packed_, first_moment_, second_moment_;
  std::vector<Buffer<S>> slots_;
  std::vector<Sequence> workspaces_;
  std::vector<DecayRun> decay_runs_;
  std::vector<double> losses_, chunk_norms_;
  long steps_ = 0;
};

}  // namespace simplx
