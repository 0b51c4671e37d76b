// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/updates.hpp
/// Updates: what turns gradients into steps of an optimiser, for whoever trains: its moments, the settings of groups of
/// parameters, the limit of the gradient's norm, and how many steps were taken.

#include <simplx/cpu/memory.hpp>
#include <simplx/cpu/threads.hpp>
#include <simplx/train/adamw.hpp>
#include <simplx/train/clip.hpp>
#include <simplx/train/sgd.hpp>
#include <simplx/train/trainer_state.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// Updates the parameters of one model, with the same bits for any number of threads.
template <class S>
class Updates {
 public:
  /// Of these tensors, in flat buffers of so many elements.
  ///
  /// Errors  throws Error for a group that matches no parameter, or whose numbers make no sense
  Updates(const std::vector<TensorInfo>& tensors, Index elements, const TrainerOptions& options)
      : clip_(options.clip),
        runs_(settings_runs(tensors, options.groups)),
        first_moment_(elements),
        second_moment_(elements),
        chunk_norms_(static_cast<std::size_t>(norm_chunks(elements))) {}

  /// How many steps were taken.
  const StepCount& count() const { return count_; }
  /// Elements of all buffers.
  Index size() const { return 2 * first_moment_.size(); }

  /// Errors  throws Error if a number of the optimiser makes no sense, for all parameters or for a group of them
  template <class Optimiser>
  void check(const Optimiser& optimiser) const {
    check_optimiser<S>(optimiser, runs_);
  }

  /// Clips a gradient, updates the parameters by it and leaves zeros in its place; nothing, unless it and the loss in
  /// `result` are finite, which is noted there with the norm. Frozen parameters keep their bits, and their gradient is
  /// no part of the norm. The moments begin anew when an optimiser of another kind takes over. `fold(begin, end)` is
  /// called first for each part of the gradient.
  template <class Optimiser, class Fold>
  void step(const Optimiser& optimiser, cpu::Team& team, const std::vector<TensorInfo>& tensors, S* parameters,
            S* gradient, StepResult& result, const Fold& fold) {
    const Index size = first_moment_.size(), chunks = norm_chunks(size);
    team.run([&](int member) {
      for (Index chunk = member; chunk < chunks; chunk += team.size()) {
        const Index begin = chunk * norm_chunk, end = std::min(begin + norm_chunk, size);
        fold(begin, end);
        each_run(runs_, begin, end, [&](Index from, Index to, const ParameterSettings& settings) {
          if (settings.frozen()) std::fill(gradient + from, gradient + to, S(0));
        });
        chunk_norms_[static_cast<std::size_t>(chunk)] = chunk_squared_norm(gradient, size, chunk);
      }
    });
    double squared = 0;
    for (const double part : chunk_norms_) squared += part;
    result.take_norm(std::sqrt(squared));
    if (!result.finite) {
      result.culprit = first_broken(tensors, gradient, result.loss);
      return;
    }
    const long moment_step = count_.step_of(Optimiser::name);
    if (count_.optimiser != Optimiser::name) {
      std::ranges::fill(first_moment_, S(0));
      std::ranges::fill(second_moment_, S(0));
      count_.optimiser.clear(), count_.moment_steps = 0;  // should the rule throw, the moments are nobody's
    }
    const double factor = clip_factor(result.gradient_norm, clip_);
    const UpdateBuffers<S> buffers{parameters, gradient, first_moment_.data(), second_moment_.data()};
    team.run([&](int member) {
      for (Index chunk = member; chunk < chunks; chunk += team.size()) {
        const Index begin = chunk * norm_chunk, end = std::min(begin + norm_chunk, size);
        each_run(runs_, begin, end, [&](Index from, Index to, const ParameterSettings& settings) {
          if (settings.frozen()) return;
          update_range(optimiser.with(settings).template at<S>(moment_step), factor, buffers, from, to);
        });
      }
    });
    count_.add(Optimiser::name);
  }

  std::span<S> first_moments() { return first_moment_.span(); }
  std::span<S> second_moments() { return second_moment_.span(); }
  /// Goes on after so many steps, whose moments were restored.
  void restore(const StepCount& count) { count_ = count; }

 private:
  double clip_;
  std::vector<SettingsRun> runs_;
  cpu::Buffer<S> first_moment_, second_moment_;
  std::vector<double> chunk_norms_;
  StepCount count_;
};

}  // namespace simplx
