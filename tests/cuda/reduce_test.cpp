// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/reduce.cuh>

#include "cuda/kernels.hpp"

#include <numeric>

using namespace simplx;
using namespace simplx::gpu;

namespace {

template <int threads>
__global__ void block_sums(const int* values, int* sums, int* largest) {
  int own[2] = {values[threadIdx.x], 1};
  block_sum<threads>(own);
  block_sum<threads>(own);  // again, through the same shared memory
  sums[threadIdx.x] = own[0] + own[1];
  largest[threadIdx.x] = warp_max(values[threadIdx.x]);
}

template <int threads>
__global__ void block_maxima(const float* values, float* largest) {
  largest[threadIdx.x] = block_max<threads>(values[threadIdx.x]);
}

}  // namespace

TEST_SUITE_BEGIN("cuda/reduce");

TEST_CASE("all threads of a block get the sum") {
  emulation::each_schedule([] {
    const auto check = [](auto kernel, int threads) {
      std::vector<int> values(static_cast<std::size_t>(threads)), sums(values), largest(values);
      for (int i = 0; i < threads; ++i) values[static_cast<std::size_t>(i)] = i % 13;
      const int sum = std::accumulate(values.begin(), values.end(), 0);
      launch(nullptr, kernel, 1, static_cast<unsigned>(threads), values.data(), sums.data(), largest.data());
      CHECK(sums == std::vector<int>(values.size(), sum * threads + threads * threads));
      CHECK(largest == std::vector<int>(values.size(), 12));
    };
    check(block_sums<32>, 32);
    check(block_sums<160>, 160);
  });
}

TEST_CASE("all threads of a block get the largest value, NaN whoever has it") {
  const auto check = [](auto kernel, int threads) {
    for (int place = 0; place < threads; place += 31) {
      CAPTURE(place);
      std::vector<float> values(static_cast<std::size_t>(threads), -3), largest(values);
      const auto is_found = [&](float value) {
        values[static_cast<std::size_t>(place)] = value;
        launch(nullptr, kernel, 1, static_cast<unsigned>(threads), values.data(), largest.data());
        for (const float each : largest) CHECK((std::isnan(value) ? std::isnan(each) : each == value));
      };
      is_found(-2);
      is_found(std::numeric_limits<float>::quiet_NaN());
    }
  };
  check(block_maxima<32>, 32);
  check(block_maxima<160>, 160);
}

TEST_CASE("sums over columns and over everything") {
  const std::pair<int, int> sizes[] = {{1, 1},    {5, 33},   {40, 7}, {17, 64}, {0, 3},
                                       {1000, 1}, {600, 12}, {40, 2}, {3, 16}};
  for (const auto& size : sizes) {
    const int count = size.first, cols = size.second;
    CAPTURE(count);
    CAPTURE(cols);
    const auto parts = test::numbers<float>(count * cols, 1), before = test::numbers<float>(cols, 2);
    std::vector<double> exact(before.begin(), before.end());
    for (std::size_t i = 0; i < parts.size(); ++i) exact[i % exact.size()] += parts[i];
    const auto sums = test::same_bits([&] {
      auto result = before;
      add_column_sums(nullptr, parts.data(), count, cols, result.data());
      return result;
    });
    CHECK(test::distance(sums, exact) < 8);
    std::vector<__nv_bfloat16> narrow(parts.size());  // and turned
    std::vector<double> of_narrow(exact.size());
    for (int i = 0; i < count; ++i) {
      for (int j = 0; j < cols; ++j) {
        const auto from = static_cast<std::size_t>(i * cols + j), to = static_cast<std::size_t>(j * count + i);
        narrow[to] = static_cast<__nv_bfloat16>(parts[from]);
        of_narrow[static_cast<std::size_t>(j)] += static_cast<double>(static_cast<float>(narrow[to]));
      }
    }
    const auto stored = test::same_bits([&] {
      auto result = test::unwritten<float>(cols);
      column_sums<Write::store>(nullptr, narrow.data(), {.row = 1, .col = count}, count, cols, result.data());
      return result;
    });
    CHECK(test::distance(stored, of_narrow, count) < 8);
  }
}

TEST_SUITE_END();
