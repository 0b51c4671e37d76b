// SPDX-License-Identifier: MIT
#pragma once

// The same models on a GPU; for the sources that nvcc compiles.

#include "writer_of.hpp"

#include <simplx/cuda/stream.cuh>

template <auto const& block>
std::unique_ptr<generate_text::Writer> generate_text::make_cuda_writer(Device device, std::uint64_t seed) {
  using namespace simplx;
  if (device == Device::cuda_bfloat16) return std::make_unique<WriterOf<block, Cuda<Precision::bfloat16>>>(seed);
  if (device == Device::cuda_tf32) return std::make_unique<WriterOf<block, Cuda<Precision::tf32>>>(seed);
  return std::make_unique<WriterOf<block, Cuda<Precision::float32>>>(seed);
}
