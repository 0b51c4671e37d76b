// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/differentiate/learner.hpp
/// Learner<loss>: a Function whose parameters an optimiser trains, for data of any kind; Trainer is for tokens.
///
///     inline constexpr auto loss = [] {
///       const Expr x = input("image", rows_of(Axis::batch, 64));
///       return mean(cross_entropy(classifier(x), indices("digit", Axis::batch)));
///     };
///
///     Learner<loss> learner{{.seed = 1}};
///     learner.set<"image">(images).set<"digit">(digits);     // one batch after another
///     const StepResult result = learner.step(AdamW{.learning_rate = 1e-3});
///     save_checkpoint("digits.safetensors", learner);        // save_training(...) to go on from
///
/// A loss that is a mean over rows (or a sum of means or of sums: differentiate/divided_loss.hpp), as nearly all are,
/// is evaluated some rows at a time, on as many threads as the learner has, with the same bits for any number of them:
/// `Learner<loss>::divides` says whether it is. Others are evaluated at once, on one thread, and so is every loss with
/// other results beside it: return the loss alone, and evaluate the others by a Function of the same parameters.
///
/// Inputs that are `variable` have gradients, too, but whoever gave them changes them.

#include <simplx/differentiate/divided_loss.hpp>
#include <simplx/differentiate/function.hpp>
#include <simplx/train/updates.hpp>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// What a learner is told when it is made, as TrainerOptions.
struct LearnerOptions {
  std::uint64_t seed = 0;                   ///< of the initial values, and of dropout
  int threads = 1;                          ///< of a CPU; not part of the result's bits
  double clip = 1;                          ///< limit of the gradient's norm; 0 is off
  std::vector<ParameterGroup> groups = {};  ///< parameters with rates, decay, ... of their own
  InitialLaws laws = nullptr;               ///< of the initial values; the function's unless given

  operator TrainerOptions() const {
    return {.seed = seed, .threads = threads, .clip = clip, .groups = groups, .laws = laws};
  }
};

namespace detail {

/// How parameters are updated where a backend has them: this is the CPU.
template <class Backend>
class LearnerUpdates : public Updates<typename Backend::Scalar> {
  using Base = Updates<typename Backend::Scalar>;

 public:
  LearnerUpdates(const std::vector<TensorInfo>& tensors, Index elements, const TrainerOptions& options)
      : Base(tensors, elements, options), team_(options.threads) {}

  cpu::Team& team() { return team_; }
  template <class Optimiser, class Trained>
  void step(const Optimiser& optimiser, const std::vector<TensorInfo>& tensors, const Trained& trained,
            StepResult& result) {
    Base::step(optimiser, team_, tensors, trained.parameters, trained.gradients, result, [](Index, Index) {});
  }

 private:
  cpu::Team team_;
};

/// Who evaluates a loss that is not divided: the function itself, as everything on a GPU.
struct Undivided {};

template <class G, class Backend>
constexpr bool divides_on() {
  if constexpr (requires { Backend::on_device; }) {
    return false;
  } else {
    return division_of<G>().possible();
  }
}

}  // namespace detail

/// Trains the parameters of a function, whose first result is the loss.
template <auto const& f, class Backend_ = Cpu<float>>
class Learner : public Function<f, Backend_> {
  using Base = Function<f, Backend_>;

 public:
  using typename Base::Backend, typename Base::S;
  /// Whether steps and loss() evaluate the rows in parts, which threads share.
  static constexpr bool divides = detail::divides_on<typename Base::G, Backend>();

  /// Draws the initial values; memory for evaluations is taken by the first, that of moments here.
  ///
  /// Errors  throws Error for a clip below 0, for a group that matches no parameter or whose numbers make no sense,
  ///         and for threads below 1 or that do not start
  explicit Learner(const LearnerOptions& options = {})
      : Base(options.seed),
        options_(options),
        updates_(this->tensors().parameters, std::ssize(this->parameters()), options_) {
    check_clip(options.clip);
    if (!options.laws) return;
    this->tensors_.parameters = options.laws(std::move(this->tensors_.parameters));
    initialise(this->tensors_.parameters, options.seed, this->parameters().data());
  }

  long steps() const { return updates_.count().steps; }
  const LearnerOptions& options() const { return options_; }

  /// As of Function: data for the next step.
  template <Name name, class Object>
  Learner& set(const Object& object) {
    Base::template set<name>(object);
    return *this;
  }
  template <Name name, class Object>
  Learner& bind(Object&& object) {
    Base::template bind<name>(std::forward<Object>(object));
    return *this;
  }
  Learner& set_sequences(std::span<const Index> lengths) {
    Base::set_sequences(lengths);
    return *this;
  }

  /// The loss of what was set, bound and given as sequences, its gradient, and an update by it; dropout drops, from
  /// the seed and the number of the step. output() is that of the last forward(), which this is where the loss is not
  /// divided.
  ///
  /// Errors  as Function::value_and_grad, and throws Error if a number of the optimiser makes no sense; then nothing
  ///         has changed
  /// Cost    three times the FLOPs of a forward pass; memory of a part of the rows for each thread, or of all rows
  ///         where the loss is not divided; no allocation, but for more rows than before, or other sequences
  template <OptimiserOf<S> Optimiser = AdamW>
  StepResult step(const Optimiser& optimiser) {
    updates_.check(optimiser);
    const auto dropping = training();
    if constexpr (divides) {
      return update(optimiser, divided_.value_and_grad(updates_.team(), Base::given(updates_.team())));
    } else if constexpr (has_loss()) {
      this->value_and_grad();
      return update(optimiser);
    } else {
      return {};
    }
  }
  template <class Other>
    requires(!OptimiserOf<Other, S>)
  StepResult step(const Other&) {
    return detail::no_optimiser<S, Other>(), StepResult{};
  }

  /// The loss of what was set, bound and given as sequences; forward only, and nothing is dropped. output() as after
  /// step().
  ///
  /// Errors  as Function::value
  /// Cost    a forward pass, on all threads where the loss is divided
  double loss() {
    if constexpr (divides) {
      return divided_.value(updates_.team(), Base::given(updates_.team()));
    } else if constexpr (has_loss()) {
      return static_cast<double>(this->value());
    } else {
      return 0;
    }
  }

  /// Evaluations of one's own drop what step() would, while the object lives that this returns (and the learner stays
  /// where it is); otherwise nothing:
  ///
  ///     const auto training = learner.training();
  ///     learner.forward();
  ///     learner.output_gradient<1>() = ...;
  ///     learner.backward();
  ///     learner.update(optimiser);
  [[nodiscard]] auto training() {
    return TrainingMode(this->random(), {.training = true, .key = detail::dropout_key(options_.seed, steps())});
  }

  /// Clips the gradient that the last backward() left, and updates the parameters by it if it is finite, and so is the
  /// loss where that is one number. It is used up: `gradient` waits for the next backward(). The moments begin anew
  /// when an optimiser of another kind takes over; frozen parameters keep their bits.
  ///
  /// Errors  throws Error without a backward(), or if a number of the optimiser makes no sense; then nothing has
  ///         changed
  template <OptimiserOf<S> Optimiser = AdamW>
  StepResult update(const Optimiser& optimiser) {
    updates_.check(optimiser);
    if (!this->differentiated_) {
      throw Error("update() without a backward()",
                  "call step(), or forward(), output_gradient(), backward() and then update()");
    }
    if constexpr (Base::result_shape(0) == fixed_shape(1, 1)) {
      return update(optimiser, static_cast<double>(this->output()(0)));
    } else {
      return update(optimiser, 0.0);
    }
  }
  template <class Other>
    requires(!OptimiserOf<Other, S>)
  StepResult update(const Other&) {
    return detail::no_optimiser<S, Other>(), StepResult{};
  }

  /// What continues this training bit for bit; its buffers are views of this learner's.
  TrainerState<S> state() {
    return {this->parameters(), updates_.first_moments(), updates_.second_moments(), updates_.count(), options_.seed,
            rules_of(options_), this->constants()};
  }
  /// Goes on from a state: its buffers are copied, unless they are this learner's own, filled in place.
  ///
  /// Errors  throws Error if it is of other sizes, another seed, clip or groups; then nothing has changed
  void restore(const TrainerState<S>& state) {
    updates_.restore(take_state(state, this->state()));
    this->differentiated_ = this->evaluated_ = false;
  }

 private:
  static constexpr bool has_loss() {
    constexpr bool one_number = Base::result_shape(0) == fixed_shape(1, 1);
    static_assert(!Base::G::sound || one_number,
                  "simplx: the first result of a Learner is its loss, one number: mean(cross_entropy(...)), where a "
                  "Trainer takes a loss for each row; other results are trained by forward(), output_gradient<k>(), "
                  "backward() and update(optimiser)");
    return one_number;
  }
  /// Dropout as a step has it, until the end of a scope.
  class TrainingMode {
   public:
    TrainingMode(Randomness& random, const Randomness& of_step) : random_(random), before_(random) { random = of_step; }
    TrainingMode(const TrainingMode&) = delete;
    TrainingMode& operator=(const TrainingMode&) = delete;
    ~TrainingMode() { random_ = before_; }

   private:
    Randomness& random_;
    Randomness before_;
  };
  template <class Optimiser>
  StepResult update(const Optimiser& optimiser, double loss) {
    StepResult result;
    result.loss = loss;
    this->differentiated_ = this->evaluated_ = false;  // also where the optimiser throws
    updates_.step(optimiser, this->tensors().parameters, this->trained(), result);
    return result;
  }
  LearnerOptions options_;
  detail::LearnerUpdates<Backend> updates_;
  std::conditional_t<divides, DividedLoss<typename Base::G, Backend>, detail::Undivided> divided_;
};

}  // namespace simplx
