// SPDX-License-Identifier: MIT
#pragma once

// How a model is trained: all that can differ between two runs of it without compiling it anew.

#include <map>
#include <nlohmann/json.hpp>
#include <simplx/core/shape.hpp>
#include <string>

namespace paper {

using Json = nlohmann::ordered_json;

enum class Schedule : signed char {
  linear,  ///< up to the peak, then down to zero
  cosine,
  ramp,  ///< up without end: Fig. 5 of NormFormer
};

/// W0 of V and P in Eq. (6): as the model says, the identity, or orthogonal and tied.
enum class Base : signed char { own, identity, last_layer_tied, all_layers_tied };

struct Settings {
  long steps = 2000;
  simplx::Index batch = 16;  ///< sequences of a step
  double rate = 3e-3;        ///< the peak; of a ramp, what every step adds
  Schedule schedule = Schedule::linear;
  double warmup = 0.05;     ///< share of the steps
  double warmup_start = 0;  ///< share of the peak
  double clip = 1;          ///< 0 is off
  double weight_decay = 0.1;
  double beta2 = 0.999, epsilon = 1e-8;
  bool all_decay = false;     ///< gains and biases too
  bool fairseq_init = false;  ///< the initial values of NormFormer's code
  Base base = Base::own;
  std::map<std::string, double> initial = {};  ///< parameters and constants that begin as this number
  std::map<std::string, double> factors = {};  ///< of the learning rate; 0 keeps a parameter as it begins
  int turns = 0;  ///< nothing is learned: the time of a step, in so many turns with the other models of the experiment

  Settings with(auto change) const {
    Settings other = *this;
    change(other);
    return other;
  }
};

/// The settings as results name them: what is not said is as it is above.
inline Json json_of(const Settings& settings) {
  const char* const schedules[] = {"linear", "cosine", "ramp"};
  const char* const bases[] = {"own", "identity", "last_layer_tied", "all_layers_tied"};
  Json json{{"steps", settings.steps},
            {"batch", settings.batch},
            {"rate", settings.rate},
            {"schedule", schedules[static_cast<int>(settings.schedule)]},
            {"warmup", settings.warmup},
            {"clip", settings.clip},
            {"weight_decay", settings.weight_decay},
            {"beta2", settings.beta2},
            {"epsilon", settings.epsilon}};
  if (settings.warmup_start != 0) json["warmup_start"] = settings.warmup_start;
  if (settings.all_decay) json["all_decay"] = true;
  if (settings.fairseq_init) json["fairseq_init"] = true;
  if (settings.base != Base::own) json["base"] = bases[static_cast<int>(settings.base)];
  if (!settings.initial.empty()) json["initial"] = settings.initial;
  if (!settings.factors.empty()) json["factors"] = settings.factors;
  if (settings.turns) json["turns"] = settings.turns;
  return json;
}

/// One run that is wanted.
struct Task {
  std::string model;
  Settings settings;
  std::uint64_t seed = 1;
};

/// What tells the task from others.
inline Json json_of(const Task& task) {
  return {{"model", task.model}, {"settings", json_of(task.settings)}, {"seed", task.seed}};
}

}  // namespace paper
