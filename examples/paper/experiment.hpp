// SPDX-License-Identifier: MIT
#pragma once

// What an experiment is: a declaration, to be read beside the paper's figure or table.

#include <limits>
#include <string>
#include <vector>

#include "settings.hpp"

namespace paper {

inline constexpr double missing = std::numeric_limits<double>::quiet_NaN();

/// A number that a finished run has.
struct Quantity {
  const char* name;
  const char* unit;
  int digits;
  double (*of)(const Json& run);
  bool is_time = false;  ///< the least over the seeds counts; shown as a speed as well: that of the first arm is 1
};

/// A model with its settings: a line of a figure, a row of a table, a point of a sweep.
struct Arm {
  std::string name;
  std::string model;
  Settings settings = {};
  std::vector<double> rates = {};  ///< learning rates that are tried, of which the best counts; that of the settings
  std::string published = {};      ///< what the paper has here
  std::string line = {};           ///< of a sweep: which of its lines this is a point of, and where
  double x = missing;
};

/// The arm, beside which the paper has these numbers.
inline Arm published(Arm arm, const char* numbers) {
  arm.published = numbers;
  return arm;
}

/// What the paper says of two arms, or of an arm and a number.
struct Ordering {
  enum class Relation : signed char {
    below,
    about,  ///< at most `number` more, as a share
    below_number,
    above_number,
  };
  Relation relation;
  std::string left, right = {};
  double number = 0;
  const Quantity* quantity = nullptr;  ///< that of the experiment unless given
};

inline Ordering below(std::string left, std::string right, const Quantity* quantity = nullptr) {
  return {Ordering::Relation::below, std::move(left), std::move(right), 0, quantity};
}
/// The left is no more than that share above the right.
inline Ordering about(std::string left, std::string right, double share = 0.02) {
  return {Ordering::Relation::about, std::move(left), std::move(right), share};
}
inline Ordering below_number(std::string left, const Quantity& quantity, double number) {
  return {Ordering::Relation::below_number, std::move(left), {}, number, &quantity};
}
inline Ordering above_number(std::string left, const Quantity& quantity, double number) {
  return {Ordering::Relation::above_number, std::move(left), {}, number, &quantity};
}

/// What is drawn.
struct Drawing {
  enum class Kind : signed char {
    by_step,  ///< held-out loss of the arms
    by_time,
    sweep,         ///< the measured quantity over x, a line for each `line`
    trajectories,  ///< what `of` names in every layer of `arm`, over the steps
    profile,       ///< what `of` names over the layers, a line for each arm, at the step nearest to `at`
  };
  Kind kind;
  std::string title;
  std::string of = {}, arm = {};  ///< of a sweep: what x is
  double at = 1;                  ///< share of the steps
};

struct Experiment {
  std::string name;    ///< on the command line
  std::string source;  ///< "S" or "N"
  std::string shows;   ///< "Figure 3"
  std::string title;
  std::string claim;           ///< of the paper
  std::string miniature = {};  ///< where this differs from the paper, beside size and text
  std::string reading = {};    ///< what to think of what was seen, above all where it is not the paper's
  std::vector<Arm> arms = {};
  const char* published_in = "";  ///< what the arms' numbers of the paper are, or their unit
  const Quantity* measured = nullptr;
  std::vector<Ordering> expected = {};
  std::vector<Drawing> drawings = {};
};

/// All of both papers, in the order in which they are run. Simplifying Transformer Blocks, then NormFormer.
const std::vector<Experiment>& experiments();
std::vector<Experiment> simplifying_experiments();
std::vector<Experiment> norm_former_experiments();

/// The one of that name. Throws Error with the nearest names.
const Experiment& experiment_named(const std::string& name);

/// The tasks of an arm for a seed: one for each rate. Unless it is 0, `steps` takes the place of the usual number;
/// what is longer or shorter stays so in proportion.
std::vector<Task> tasks_of(const Arm& arm, std::uint64_t seed, long steps);

}  // namespace paper
