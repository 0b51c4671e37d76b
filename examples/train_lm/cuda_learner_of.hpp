// SPDX-License-Identifier: MIT
#pragma once

// The same models on a GPU; for the sources that nvcc compiles.

#include "learner_of.hpp"

#include <simplx/cuda/evaluation.cuh>
#include <simplx/cuda/trainer.cuh>

template <auto const& block>
std::unique_ptr<train_lm::Learner> train_lm::make_cuda_learner(const simplx::TrainerOptions& options) {
  using namespace simplx;
  constexpr Precision precision = path == Path::bfloat16 ? Precision::bfloat16 : Precision::float32;
  return std::make_unique<LearnerOf<block, Cuda<precision>>>(options);
}
