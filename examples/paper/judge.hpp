// SPDX-License-Identifier: MIT
#pragma once

// What was seen of an experiment, and whether it is what the paper says.

#include "experiment.hpp"
#include "results.hpp"

namespace paper {

/// The run of an arm with one seed; of several learning rates the best.
struct Seen {
  std::uint64_t seed;
  double rate;
  const Json* run;
};

struct ArmSeen {
  const Arm* arm;
  std::vector<Seen> seeds;  ///< those of which all runs are finished

  /// A quantity for each seed.
  std::vector<double> values(const Quantity& quantity) const;
};

struct Verdict {
  enum class Is : signed char { open, holds, fails };
  Is is = Is::open;
  std::string sentence;  ///< what is expected
  std::string seen;      ///< and what was seen
};

/// Every arm with the seeds 1 to the first that is missing in all of them.
std::vector<ArmSeen> look(const Experiment& experiment, const Results& results, long steps);

std::vector<Verdict> judge(const Experiment& experiment, const std::vector<ArmSeen>& arms);

/// "3 of 4 hold, 1 is open".
std::string summary_of(const std::vector<Verdict>& verdicts);

/// "1.873", or "diverged".
std::string shown(double value, int digits);
/// "1.873" of one, "1.873 (1.860 to 1.881)" of several.
std::string shown(const std::vector<double>& values, int digits);

/// The rows that the terminal and the page show: a head, then a row for each arm.
std::vector<std::vector<std::string>> table_of(const Experiment& experiment, const std::vector<ArmSeen>& arms);

/// "6 layers of width 64, ...": what the arms have in common.
std::string setting_of(const Experiment& experiment, long steps);

}  // namespace paper
