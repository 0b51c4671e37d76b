// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/device_parameters.cuh>

#include "cuda/kernels.hpp"

#include <simplx/cuda/reduce.cuh>

using namespace simplx;
using namespace simplx::gpu;

TEST_SUITE_BEGIN("cuda/device_parameters");

TEST_CASE("what is rounded follows the host, and is left to kernels that change numbers on the device") {
  const GpuStream stream;
  DeviceParameters<float, true> parameters(16);
  Mirrored<float> ones(16);
  std::ranges::fill(ones.host(stream), 1.0f);
  std::ranges::fill(parameters.host(stream), 3.14159f);
  const auto rounded = [&] {
    stream.synchronize();
    return float(parameters.rounded()[7]);
  };
  static_cast<void>(parameters.device(stream));
  CHECK(rounded() == 3.140625f);
  parameters.host(stream)[7] = 100.3f;
  add(stream, ones.device(stream), 16, parameters.changed_device(stream));
  CHECK(rounded() == 100.5f);  // of the number before, which a kernel has changed
  CHECK(parameters.host(stream)[7] == 101.3f);
  static_cast<void>(parameters.device(stream));
  CHECK(rounded() == 101.5f);
  CHECK(parameters.bytes() == 16 * 6);
}

TEST_CASE("where nothing is rounded it is no memory") {
  const GpuStream stream;
  DeviceParameters<double, false> parameters(16);
  static_cast<void>(parameters.device(stream));
  CHECK(parameters.rounded() == nullptr);
  CHECK(parameters.bytes() == 16 * 8);
}

TEST_SUITE_END();
