// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/trainer_state.hpp
/// What a trainer needs, besides its model and its batches, to go on as if it had never stopped.
///
///     TrainerState<float> now = trainer.state();   // views of the buffers, copies of the counters
///     other.restore(now);                          // takes its next steps bit for bit as `trainer` would
///
/// Random numbers are drawn from counters, so that the seed and the number of steps are all that is left of them.
/// Batches and the optimiser's numbers are the caller's, who gives them at each step: the same ones give the same bits.

#include <simplx/core/error.hpp>
#include <simplx/train/trainer_options.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace simplx::inline SIMPLX_TARGET {

/// How far a training has come.
struct StepCount {
  std::string optimiser = {};  ///< whose moments there are; empty before the first step
  long steps = 0;              ///< taken in all: what dropout draws from
  long moment_steps = 0;       ///< of these, taken by that optimiser: its bias correction

  /// Counts a step, whose moments begin anew with another optimiser.
  void add(std::string_view by) {
    moment_steps = step_of(by);
    optimiser = by;
    ++steps;
  }
  /// The number that a step has for the moments of its optimiser, from 1 on.
  long step_of(std::string_view by) const { return optimiser == by ? moment_steps + 1 : 1; }
};

/// Buffers are in the layout of the parameters; a rule with a single moment leaves the second at zero.
template <class S>
struct TrainerState {
  std::span<S> parameters, first_moments, second_moments;
  StepCount count = {};
  std::uint64_t seed = 0;       ///< of dropout
  std::string rules = {};       ///< of the trainer's updates (rules_of); empty where they are not known
  std::span<S> constants = {};  ///< what is not trained: rates that someone set, what was drawn; none if not known
};

/// What the updates of a trainer with these options depend on, beside the optimiser's own numbers:
/// "clip 1, embedding.* learning_rate_factor 0". Other options, another text.
inline std::string rules_of(const TrainerOptions& options) {
  std::string text;
  const auto add = [&](const char* name, const std::optional<double>& value) {
    if (value) text.append(name).append(shortest(*value));
  };
  add("clip ", options.clip);
  for (const ParameterGroup& group : options.groups) {
    text += ", " + group.name;
    add(" learning_rate_factor ", group.learning_rate_factor);
    if (group.decays) text += *group.decays ? " decays" : " does not decay";
    add(" weight_decay ", group.weight_decay);
    add(" epsilon ", group.epsilon);
    add(" momentum ", group.momentum);
  }
  return text;
}

/// Refuses what a trainer cannot go on from bit for bit.
///
/// Errors  throws Error that lists everything that differs
template <class S>
void check_same_training(const TrainerState<S>& saved, const TrainerState<S>& own) {
  std::string faults;
  const auto compare = [&](const char* name, std::uint64_t there, std::uint64_t here) {
    if (there == here) return;
    faults += std::string("\n  ") + name + ": " + std::to_string(there) + " there, " + std::to_string(here) + " here";
  };
  compare("elements of the parameters", saved.parameters.size(), own.parameters.size());
  compare("elements of the first moments", saved.first_moments.size(), own.first_moments.size());
  compare("elements of the second moments", saved.second_moments.size(), own.second_moments.size());
  if (!saved.constants.empty()) {
    compare("elements of the constants", saved.constants.size(), own.constants.size());
  }
  compare("seed", saved.seed, own.seed);
  if (!saved.rules.empty() && !own.rules.empty() && saved.rules != own.rules) {
    faults += "\n  rules: " + saved.rules + " there, " + own.rules + " here";
  }
  const long steps = saved.count.steps, moment_steps = saved.count.moment_steps;
  if (steps < 0 || moment_steps < 0 || moment_steps > steps) {
    faults += "\n  steps: " + std::to_string(moment_steps) + " of " + std::to_string(steps) + " is impossible";
  }
  if (faults.empty()) return;
  throw Error("the state is not of this training:" + faults,
              "give the trainer the model, seed, clip and groups that the state was made with; load_checkpoint takes "
              "its weights alone");
}

/// Goes on from a state: its buffers are copied to a training's own, unless they are these, filled in place.
///
/// Errors  as check_same_training; then nothing has changed
template <class S>
StepCount take_state(const TrainerState<S>& state, const TrainerState<S>& own) {
  check_same_training(state, own);
  const auto take = [](std::span<S> from, std::span<S> to) {
    if (from.data() != to.data()) std::ranges::copy(from, to.begin());
  };
  take(state.parameters, own.parameters);
  take(state.first_moments, own.first_moments);
  take(state.second_moments, own.second_moments);
  take(state.constants, own.constants);
  return state.count;
}

}  // namespace simplx
