// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/port.cuh>

#include "cuda/kernels.hpp"

using namespace simplx;
using namespace simplx::gpu;

static_assert(blocks_for(0, 4) == 0 && blocks_for(1, 4) == 1 && blocks_for(4, 4) == 1 && blocks_for(5, 4) == 2);

namespace {

__global__ void scale_reversed(const float* x, float* y, double factor) {
  SIMPLX_SHARED(own, float[64]);
  own[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = static_cast<float>(factor) * own[63 - threadIdx.x];
}

}  // namespace

TEST_CASE("cuda/port: a launch converts its arguments to those of the kernel; one of no blocks does nothing") {
  const auto x = test::numbers<float>(64, 1);
  const auto y = test::same_bits([&] {
    auto result = test::unwritten<float>(64);
    launch(nullptr, scale_reversed, 1, 64, x.data(), result.data(), 2);
    return result;
  });
  for (std::size_t i = 0; i < 64; ++i) CHECK(y[i] == 2 * x[63 - i]);
  launch(nullptr, scale_reversed, 0, 64, nullptr, nullptr, 2);
}
