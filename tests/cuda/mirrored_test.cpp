// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/mirrored.cuh>

#include "cuda/kernels.hpp"

#include <simplx/cuda/reduce.cuh>

using namespace simplx;
using namespace simplx::gpu;

TEST_SUITE_BEGIN("cuda/mirrored");

TEST_CASE("each side sees what the other has changed") {
  const GpuStream stream;
  Mirrored<float> numbers(3), ones(3);
  std::ranges::fill(ones.host(stream), 1.f);
  std::ranges::copy(std::vector<float>{1, 2, 3}, numbers.host(stream).begin());
  const auto seen = [&] { return std::vector<float>(numbers.host(stream).begin(), numbers.host(stream).end()); };
  CHECK(seen() == std::vector<float>{1, 2, 3});
  add(stream, ones.device(stream), 3, numbers.changed_device(stream));
  CHECK(seen() == std::vector<float>{2, 3, 4});
  numbers.host(stream)[1] = 10;
  add(stream, ones.device(stream), 3, numbers.changed_device(stream));
  add(stream, ones.device(stream), 3, numbers.changed_device(stream));
  CHECK(seen() == std::vector<float>{4, 12, 6});
  CHECK(numbers.size() == 3);
}

TEST_CASE("the host may write once the device has read, also where it reads the host's memory itself") {
  emulation::coherent_memory = true;
  const GpuStream stream;
  Mirrored<float> numbers(2), sums(2);
  std::ranges::fill(sums.host(stream), 0.f);
  std::ranges::fill(numbers.host(stream), 1.f);
  add(stream, numbers.device(stream), 2, sums.changed_device(stream));
  std::ranges::fill(numbers.host(stream), 100.f);
  CHECK(sums.host(stream)[1] == 1);
  add(stream, numbers.device(stream), 2, sums.changed_device(stream));
  CHECK(sums.host(stream)[1] == 101);
  emulation::coherent_memory = false;
}

TEST_SUITE_END();
