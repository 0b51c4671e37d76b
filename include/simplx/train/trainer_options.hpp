// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/trainer_options.hpp
/// What a trainer is told once, and what it says after each step.

#include <simplx/core/inputs.hpp>
#include <simplx/train/groups.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// Gives tensors other laws for their initial values; everything else stays.
using InitialLaws = std::vector<TensorInfo> (*)(std::vector<TensorInfo>);

/// What a trainer is told when it is made: limits, seed, laws and groups of parameters; threads change no bits.
struct TrainerOptions {
  Index batch = 8;         ///< sequences of a call at most
  Index context = 0;       ///< tokens of a sequence at most; unless given the model's member `context`, or as many as
                           ///< it has positions: a model with neither must be told
  std::uint64_t seed = 0;  ///< of the initial values, and of dropout
  int threads = 1;         ///< not part of the result's bits; as many are useful as a call has sequences that run apart
  double clip = 1;         ///< limit of the gradient's norm; 0 is off
  Index sequences_per_step = 0;  ///< at most, in all its parts; `batch` unless given
  std::vector<ParameterGroup> groups = {};  ///< parameters with rates, decay, ... of their own
  InitialLaws laws = nullptr;  ///< of the initial values, such as as_in_fairseq; the model's unless given
};

/// What a step did. A Trainer's loss is the mean over the labelled tokens (or sequences), in nats; a Learner's is the
/// first result of its function, in whatever unit that has, or 0 from update() where that is not one number.
struct StepResult {
  double loss = 0;           ///< before the update
  double gradient_norm = 0;  ///< before clipping
  Index labelled = 0;        ///< tokens (or sequences) with a label; 0 of a Learner, which knows no labels
  bool finite = true;        ///< otherwise nothing was updated
  std::string culprit;       ///< then: the first parameter whose gradient is not finite, "loss" or "gradient_norm"

  /// Takes a gradient's norm, which tells with the loss whether all is finite.
  void take_norm(double norm) {
    gradient_norm = norm;
    finite = std::isfinite(loss) && std::isfinite(norm);
  }
};

/// Errors  throws Error for a limit of the gradient's norm below 0, or that is no number
inline void check_clip(double clip) {
  if (!(clip >= 0)) throw Error("clip is " + shortest(clip), "it must be a number from 0 on; 0 is off");
}

/// The options with what was not given filled in, for a model of sequences up to `longest`, and of `usual` tokens
/// where nobody says.
///
/// Errors  throws Error for a count below its least value, for a clip below 0, and for a context that the model does
///         not have
inline TrainerOptions checked(TrainerOptions options, Index longest, Index usual) {
  const auto at_least = [](Index least, const char* name, Index value) {
    if (value >= least) return;
    throw Error(std::string(name) + " is " + std::to_string(value), "it must be at least " + std::to_string(least));
  };
  at_least(1, "batch", options.batch);
  constexpr Index most = Index(1) << 30;
  if (options.batch > most) {
    throw Error("batch is " + std::to_string(options.batch), "it counts sequences, of which no step has as many");
  }
  at_least(0, "sequences_per_step", options.sequences_per_step);
  check_clip(options.clip);
  if (!options.sequences_per_step) options.sequences_per_step = options.batch;
  options.context = checked_context(options.context ? options.context : usual, longest);
  return options;
}

/// Errors  throws Error for a gradient that is not as long as the parameters
inline void check_gradient_size(Index gradient, Index parameters) {
  if (gradient == parameters) return;
  throw Error("a gradient of " + std::to_string(gradient) + " elements for parameters of " +
                  std::to_string(parameters),
              "make it as long as parameters(): names lie at multiples of a vector");
}

}  // namespace simplx
