// SPDX-License-Identifier: MIT
#pragma once

// The same models on a GPU; for the sources that nvcc compiles.

#include "trainer_of.hpp"

#include <simplx/cuda/evaluation.cuh>
#include <simplx/cuda/trainer.cuh>

template <auto const& block>
std::unique_ptr<train_lm::AnyTrainer> train_lm::make_cuda_trainer(Device device,
                                                                  const simplx::TrainerOptions& options) {
  using namespace simplx;
  if (device == Device::cuda_bfloat16) return std::make_unique<TrainerOf<block, Cuda<Precision::bfloat16>>>(options);
  if (device == Device::cuda_tf32) return std::make_unique<TrainerOf<block, Cuda<Precision::tf32>>>(options);
  return std::make_unique<TrainerOf<block, Cuda<Precision::float32>>>(options);
}
