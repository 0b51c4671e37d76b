// SPDX-License-Identifier: MIT
#pragma once

// The same models on a GPU; for the sources that nvcc compiles.

#include "learner_of.hpp"

#include <simplx/cuda/evaluation.cuh>
#include <simplx/cuda/trainer.cuh>

template <auto const& block>
std::unique_ptr<train_lm::Learner> train_lm::make_cuda_learner(Device device, const simplx::TrainerOptions& options) {
  using namespace simplx;
  if (device == Device::cuda_bfloat16) return std::make_unique<LearnerOf<block, Cuda<Precision::bfloat16>>>(options);
  if (device == Device::cuda_tf32) return std::make_unique<LearnerOf<block, Cuda<Precision::tf32>>>(options);
  return std::make_unique<LearnerOf<block, Cuda<Precision::float32>>>(options);
}
