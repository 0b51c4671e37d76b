// SPDX-License-Identifier: MIT
#pragma once

/// Takes the place of tests/emulation/cuda.hpp where nvcc compiles the tests of kernels for a GPU: CUDA is CUDA, every
/// run is another schedule, and main.cu has the rest.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <string>

namespace emulation {

inline constexpr bool thread_sanitized = false, address_sanitized = false;

struct Schedule {
  std::string text() const { return "another run on the GPU"; }
  bool operator==(const Schedule&) const { return false; }
};
inline Schedule schedule() { return {}; }

template <class F>
void each_schedule(const F& f) {
  f();
}

/// The lower or the upper number of a register.
__device__ inline float half_of(std::uint32_t pair, int which) {
  return __uint_as_float(which ? pair & 0xffff0000u : pair << 16);
}

}  // namespace emulation
