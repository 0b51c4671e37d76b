// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/recorded.cuh>
#include <simplx/cuda/reduce.cuh>
#include <simplx/cuda/upload.cuh>

#include "cuda/kernels.hpp"

using namespace simplx;
using namespace simplx::gpu;

TEST_SUITE_BEGIN("cuda/upload");

TEST_CASE("recorded copies take what the host has when they run, there and back") {
  const GpuStream stream;
  Upload<float> part(3);
  Download<float> sum(3);
  std::ranges::copy(std::vector<float>{1, 2, 3}, part.host().begin());
  part.send(stream);
  sum.fill_with_zero(stream);
  const Recorded step(stream, [&] {
    part.send(stream, 2);
    add(stream, part.data(), 3, sum.data());
    sum.fetch(stream);
  });
  const auto run = [&] {
    step.run(stream);
    stream.synchronize();
    return std::vector<float>(sum.host().begin(), sum.host().end());
  };
  CHECK(run() == std::vector<float>{1, 2, 3});
  std::ranges::copy(std::vector<float>{10, 20, 30}, part.host().begin());
  CHECK(run() == std::vector<float>{11, 22, 6});  // two of them were sent
  CHECK_THROWS_AS(part.send(stream, 4), std::exception);
}

TEST_SUITE_END();
