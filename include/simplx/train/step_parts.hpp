// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/step_parts.hpp
/// StepParts: what a trainer has accumulated of a step and not yet used for an update.

#include <simplx/train/trainer_options.hpp>

#include <algorithm>
#include <string>

namespace simplx::inline SIMPLX_TARGET {

/// Sums and numbers of sequences of a step in parts, until its update.
class StepParts {
 public:
  bool empty() const { return sequences_ == 0; }
  /// Sequences so far: the number of the next one in the whole step.
  Index sequences() const { return sequences_; }

  /// Notes a part of so many sequences and labels; `announced` is the number of labels in all parts.
  ///
  /// Errors  throws Error if another number was announced before, or if the step has more than `limit` sequences
  void add(Index sequences, Index labelled, Index announced, Index limit) {
    if (!empty() && announced != announced_) {
      throw Error("a part of a step of " + std::to_string(announced) + " labels follows one of a step of " +
                      std::to_string(announced_), to_announce);
    }
    if (sequences_ + sequences > limit) {
      throw Error("a step of " + std::to_string(sequences_ + sequences) + " sequences for a trainer made for " +
                      std::to_string(limit),
                  "raise TrainerOptions::sequences_per_step");
    }
    sequences_ += sequences;
    labelled_ += labelled;
    announced_ = announced;
  }
  void add_loss(double loss) { loss_ += loss; }

  /// Ends the step: its mean loss.
  ///
  /// Errors  throws Error if there is none, or if not as many labels came as were announced; then it is forgotten
  StepResult take() {
    if (empty()) throw Error("there is no gradient to update with", "call accumulate before update");
    const StepParts parts = *this;
    *this = {};
    if (parts.labelled_ != parts.announced_) {
      throw Error("the step's parts have " + std::to_string(parts.labelled_) + " labels, not " +
                      std::to_string(parts.announced_) + " as announced", to_announce);
    }
    StepResult result;
    result.labelled = parts.labelled_;
    result.loss = parts.loss_ / static_cast<double>(std::max<Index>(parts.labelled_, 1));
    return result;
  }

 private:
  static constexpr const char* to_announce =
      "give each part the sum of labelled_tokens, or of labelled_sequences, over all parts";

  Index sequences_ = 0, labelled_ = 0, announced_ = 0;
  double loss_ = 0;  ///< summed over the labels
};

}  // namespace simplx
