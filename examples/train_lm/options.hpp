// SPDX-License-Identifier: MIT
#pragma once

// What the command line says.

#include "any_trainer.hpp"

#include <simplx/core/error.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace train_lm {

/// A block on offer.
struct Block {
  const char* name;
  std::unique_ptr<AnyTrainer> (*make)(Device, const simplx::TrainerOptions&);
};

/// How often a checkpoint is due: every so many steps, or minutes.
struct Interval {
  long steps = 0;
  double minutes = 5;  ///< if there are no steps
};

struct Options {
  Block block{};
  std::vector<std::filesystem::path> text;  ///< none: the Python standard library
  double minutes = 3;
  long steps = 0;  ///< 0: from the minutes
  std::uint64_t seed = 1;
  Device device = Device::cpu;
  int threads = 1;
  simplx::Index batch = 2;  ///< small batches learn most from a token, and this many keep two cores busy
  double learning_rate = 2e-3;
  std::filesystem::path out = "runs/train_lm";
  std::filesystem::path results;  ///< what lies in there is no text; none: in `out`
  bool fresh = false;  ///< move an earlier run aside
  Interval checkpoint_every;
  int keep = 3;  ///< checkpoints beside the best
};

/// A loss or a network that is no longer finite.
struct Diverged : simplx::Error {
  using simplx::Error::Error;
};

/// Trains as the options say, or goes on with what an earlier call began; returns the exit status. Throws Diverged.
int train(const Options& options);

}  // namespace train_lm
