// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/learner.cuh
/// Learner on a GPU: what differentiate/learner.hpp does, with the same names, options, initial values, masks of
/// dropout and states. Parameters, gradient and moments stay on the device.
///
///     Learner<loss, Cuda<>> learner{{.seed = 1}};
///     learner.set<"image">(images).set<"digit">(digits);
///     learner.step(AdamW{.learning_rate = 1e-3});

#include <simplx/cuda/function.cuh>
#include <simplx/cuda/updates.cuh>
#include <simplx/differentiate/learner.hpp>

#include <cmath>
#include <string>
#include <vector>

namespace simplx::inline SIMPLX_TARGET::detail {

template <Precision precision>
class LearnerUpdates<Cuda<precision>> {
  using S = typename Cuda<precision>::Scalar;

 public:
  LearnerUpdates(const std::vector<TensorInfo>& tensors, Index elements, const TrainerOptions& options)
      : updates_(tensors, elements, options) {
    updates_.clear_loss(stream_);
    stream_.synchronize();
  }

  const StepCount& count() const { return updates_.count(); }
  template <class Optimiser>
  void check(const Optimiser& optimiser) const {
    updates_.check(optimiser);
  }
  template <class Optimiser, class Trained>
  void step(const Optimiser& optimiser, const std::vector<TensorInfo>& tensors, const Trained& trained,
            StepResult& result) {
    const GpuStream& stream = trained.stream;
    const auto update = updates_.lay_out(optimiser, stream, trained.parameters, trained.gradients);
    if (!std::isfinite(result.loss)) updates_.spoil_loss(stream);
    updates_.run(stream, update);
    stream.synchronize();
    result.take_norm(updates_.totals().host()[1]);
    if (result.finite) return updates_.took(optimiser);
    result.culprit = updates_.first_broken_gradient(tensors, stream, trained.gradients, result.loss);
  }

  std::span<S> first_moments() { return updates_.first_moments(stream_); }
  std::span<S> second_moments() { return updates_.second_moments(stream_); }
  void restore(const StepCount& count) { updates_.restore(count); }

 private:
  GpuStream stream_;  ///< of copies for the host, which come when all steps are over
  gpu::DeviceUpdates<S> updates_;
};

}  // namespace simplx::inline SIMPLX_TARGET::detail
