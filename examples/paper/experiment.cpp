// SPDX-License-Identifier: MIT
#include "experiment.hpp"

#include <algorithm>
#include <simplx/core/error.hpp>
#include <simplx/train/glob.hpp>

namespace paper {

const std::vector<Experiment>& experiments() {
  static const std::vector<Experiment> all = [] {
    std::vector<Experiment> list = simplifying_experiments();
    for (Experiment& experiment : norm_former_experiments()) list.push_back(std::move(experiment));
    return list;
  }();
  return all;
}

const Experiment& experiment_named(const std::string& name) {
  const auto found = std::ranges::find(experiments(), name, &Experiment::name);
  if (found != experiments().end()) return *found;
  std::vector<std::pair<simplx::Index, std::string>> near;
  for (const Experiment& experiment : experiments()) {
    near.emplace_back(simplx::glob_distance(name, experiment.name), experiment.name);
  }
  std::ranges::stable_sort(near, {}, &std::pair<simplx::Index, std::string>::first);
  throw simplx::Error("there is no experiment '" + name + "'", "the nearest names are " + near[0].second + ", " +
                                                                   near[1].second + ", " + near[2].second +
                                                                   "; `paper list` shows all");
}

std::vector<Task> tasks_of(const Arm& arm, std::uint64_t seed, long steps) {
  std::vector<Task> tasks;
  for (const double rate : arm.rates.empty() ? std::vector{arm.settings.rate} : arm.rates) {
    Task task{arm.model, arm.settings, seed};
    task.settings.rate = rate;
    if (steps && task.settings.turns) {
      task.settings.turns = static_cast<int>(std::min<long>(task.settings.turns, steps));
    } else if (steps) {
      task.settings.steps = std::max(1L, steps * task.settings.steps / Settings{}.steps);
    }
    if (task.settings.turns) task.settings.steps = Settings{}.steps;  // which it has none of
    tasks.push_back(std::move(task));
  }
  return tasks;
}

}  // namespace paper
