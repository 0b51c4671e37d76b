// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/cuda.cuh>

#include "cuda/kernels.hpp"

using namespace simplx;
using namespace simplx::gpu;

static_assert(std::is_same_v<Cuda<>::Scalar, float> && std::is_same_v<Cuda<Precision::float64>::Scalar, double>);
static_assert(Cuda<>::factors == Factors::exact && Cuda<Precision::tf32>::factors == Factors::tf32);
static_assert(std::is_same_v<Cuda<Precision::bfloat16>::Scalar, float>);

TEST_SUITE_BEGIN("cuda/cuda");

TEST_CASE("clear, copy and add touch exactly what they are given; products are row by row") {
  Gpu gpu;
  Context<float> run;
  run.gpu = &gpu;
  DeviceBuffer<float> data(4), other(4);
  data.copy_from(std::vector<float>{1, 2, 3, 4}, gpu.stream());
  other.copy_from(std::vector<float>{10, 20, 30, 40}, gpu.stream());
  const auto is = [&](const DeviceBuffer<float>& found, const std::vector<float>& expected) {
    std::vector<float> host(4);
    found.copy_to(host, gpu.stream());
    gpu.synchronize();
    CHECK(host == expected);
  };
  Cuda<>::clear(run, data.data() + 1, 2);
  is(data, {1, 0, 0, 4});
  Cuda<>::add(run, other.data(), 3, data.data());
  is(data, {11, 20, 30, 4});
  Cuda<>::copy(run, data.data() + 1, 2, other.data() + 2);
  is(other, {10, 20, 20, 30});
  Cuda<>::clear(run, data.data(), 0), Cuda<>::copy(run, other.data(), 0, data.data());
  is(data, {11, 20, 30, 4});
  DeviceBuffer<float> y(4);
  Cuda<>::multiply(run, {.rows = 2, .cols = 2, .inner = 2}, data.data(), other.data(), y.data());
  is(y, {11 * 10 + 20 * 20, 11 * 20 + 20 * 30, 30 * 10 + 4 * 20, 30 * 20 + 4 * 30});
}

TEST_SUITE_END();
