// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/groups.hpp
/// Groups of parameters, by their names in checkpoints, that are trained with numbers of their own:
///
///     {{.name = "*", .weight_decay = 0.01},                                        // gains and biases decay too
///      {.name = "blocks.*.value.delta", .learning_rate_factor = 0.1, .epsilon = 1e-7},
///      {.name = "embedding.*", .learning_rate_factor = 0}}                         // frozen
///
/// Neighbouring tensors of equal settings are one run of the flat buffers, so that an update is still one pass.

#include <simplx/core/error.hpp>
#include <simplx/core/parameters.hpp>
#include <simplx/train/glob.hpp>
#include <simplx/train/optimiser.hpp>

#include <algorithm>

namespace simplx::inline SIMPLX_TARGET {

/// What the tensors that match a pattern have instead of the optimiser's numbers; what is not given stays. Later
/// groups win, field by field; an optimiser ignores what it has no use for.
struct ParameterGroup {
  std::string name = "*";                            ///< '*' stands for any text
  std::optional<double> learning_rate_factor = {};   ///< times the optimiser's rate; 0 freezes
  std::optional<bool> decays = {};                   ///< whether the optimiser's own weight decay applies
  std::optional<double> weight_decay = {};           ///< instead of that, whatever `decays` says
  std::optional<double> epsilon = {};                ///< of AdamW
  std::optional<double> momentum = {};               ///< of Sgd
  bool optional = false;                             ///< a model may have no such tensor
};

/// Elements [begin, end) of the flat buffers, padding included.
struct SettingsRun {
  Index begin, end;
  ParameterSettings settings;
};

namespace detail {

[[gnu::cold]] inline void check_group(const ParameterGroup& group, const std::vector<TensorInfo>& tensors) {
  const std::string of_group = " of the parameter group '" + group.name + "'";
  check_setting("learning_rate_factor" + of_group, group.learning_rate_factor.value_or(1));
  check_setting("weight_decay" + of_group, group.weight_decay.value_or(0));
  check_positive_setting("epsilon" + of_group, group.epsilon.value_or(1));
  check_setting("momentum" + of_group, group.momentum.value_or(0), 1);
  for (const TensorInfo& tensor : tensors) {
    if (matches_glob(group.name, tensor.name)) return;
  }
  if (group.optional) return;
  throw Error("no parameter matches the group '" + group.name + "'",
              "the nearest names are " + nearest_names(group.name, names_of(tensors), 3));
}

inline ParameterSettings settings_of(const TensorInfo& tensor, const std::vector<ParameterGroup>& groups) {
  ParameterSettings settings{.decays = tensor.decays};
  for (const ParameterGroup& group : groups) {
    if (!matches_glob(group.name, tensor.name)) continue;
    settings.learning_rate_factor = group.learning_rate_factor.value_or(settings.learning_rate_factor);
    settings.decays = group.decays.value_or(settings.decays);
    if (group.weight_decay) settings.weight_decay = group.weight_decay;
    if (group.epsilon) settings.epsilon = group.epsilon;
    if (group.momentum) settings.momentum = group.momentum;
  }
  if (tensor.frozen) settings.learning_rate_factor = 0;  // by the model: no group thaws it
  return settings;
}

}  // namespace detail

/// The runs of equal settings that cover the buffers of these tensors, in order.
///
/// Errors  throws Error for a pattern that matches nothing, with the nearest names, unless it is optional; and for
///         negative numbers
inline std::vector<SettingsRun> settings_runs(const std::vector<TensorInfo>& tensors,
                                              const std::vector<ParameterGroup>& groups) {
  for (const ParameterGroup& group : groups) detail::check_group(group, tensors);
  std::vector<SettingsRun> runs;
  for (const TensorInfo& tensor : tensors) {
    const ParameterSettings settings = detail::settings_of(tensor, groups);
    const Index end = tensor.offset + round_up(tensor.size(), alignment);
    if (!runs.empty() && runs.back().settings == settings) {
      runs.back().end = end;
    } else {
      runs.push_back({tensor.offset, end, settings});
    }
  }
  return runs;
}

/// As check_optimiser<S>(optimiser), of what it becomes in each run, too.
template <class S, class Optimiser>
void check_optimiser(const Optimiser& optimiser, const std::vector<SettingsRun>& runs) {
  check_optimiser<S>(optimiser);
  for (const SettingsRun& run : runs) check_optimiser<S>(optimiser.with(run.settings));
}

/// Calls f(from, to, settings) for each part of [begin, end) that has settings of its own.
template <class F>
void each_run(const std::vector<SettingsRun>& runs, Index begin, Index end, const F& f) {
  auto run = std::partition_point(runs.begin(), runs.end(), [&](const SettingsRun& r) { return r.end <= begin; });
  for (; run != runs.end() && run->begin < end; ++run) {
    f(std::max(begin, run->begin), std::min(end, run->end), run->settings);
  }
}

}  // namespace simplx
