// SPDX-License-Identifier: MIT
#pragma once

// One run: a model is trained, or its speed measured, and what an experiment asks of it written down.

#include <optional>
#include <simplx/io/corpus.hpp>
#include <simplx/io/interrupt.hpp>
#include <simplx/report/progress.hpp>

#include "any_trainer.hpp"
#include "settings.hpp"

namespace paper {

/// What all runs share.
struct Setup {
  const simplx::TokenCorpus& corpus;
  std::string text;  ///< its fingerprint
  int threads = 1;
  simplx::Interrupt& interrupt;
  simplx::ProgressLine& progress;
};

/// Arithmetic of a run in FLOP, validations included.
double flops_of(const Model& model, const Settings& settings);

/// Carries the task out, whatever becomes of the loss; nothing after a signal.
///
/// Errors  throws Error for initial values and rates of parameters that the model does not have
std::optional<Json> train(const Model& model, const Task& task, Setup& setup);

/// Milliseconds of a step of each model: they take turns, so that what else the machine does meets them all.
std::optional<std::vector<Json>> take_turns(const std::vector<Task>& tasks, Setup& setup);

}  // namespace paper
