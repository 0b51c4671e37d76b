// SPDX-License-Identifier: MIT
#pragma once

// Where a program computes. Its sources for a GPU are built with -DSIMPLX_CUDA=ON alone.

#include <simplx/core/error.hpp>

namespace devices {

/// The CPU, or a GPU with its products in one of these precisions.
enum class Device { cpu, cuda_float32, cuda_tf32, cuda_bfloat16 };

constexpr const char* name_of(Device device) {
  switch (device) {
    case Device::cpu: return "cpu";
    case Device::cuda_float32: return "cuda, float32";
    case Device::cuda_tf32: return "cuda, tf32";
    case Device::cuda_bfloat16: return "cuda, bfloat16";
  }
  return "unknown";
}

[[noreturn]] inline void throw_without_cuda() {
  throw simplx::Error("this program was built without CUDA",
                      "install the CUDA toolkit, and configure with -DSIMPLX_CUDA=ON");
}

}  // namespace devices
