// SPDX-License-Identifier: MIT
#pragma once

// A look at the weights: the trained gains of "Simplifying Transformer Blocks", and what has grown too large.

#include "any_trainer.hpp"

#include <simplx/report/run_log.hpp>

namespace train_lm {

/// Every trained number of the blocks by name: attention_gain, mlp_gain, ..., attention.alpha, beta and gamma as the
/// mean over the heads.
std::vector<simplx::LayerValues> gains(AnyTrainer& trainer);

struct Largest {
  std::string parameter;
  double size = -1;  ///< infinite if it is no number
};

/// The parameter with the largest value: where a network that overflows went wrong.
Largest largest_parameter(AnyTrainer& trainer);

}  // namespace train_lm
