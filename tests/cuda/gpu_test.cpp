// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/gpu.cuh>

#include "cuda/kernels.hpp"

using namespace simplx;
using namespace simplx::gpu;

TEST_SUITE_BEGIN("cuda/gpu");

TEST_CASE("the indices of an input are sorted into runs; those after the last one are empty") {
  Gpu gpu;
  gpu.reserve(2, 5);
  const std::vector<std::int32_t> indices{7, 3, 7, 7};
  gpu.sort(2, indices);
  gpu.draw_from({.key = 7, .first_sequence = 3});
  gpu.send();
  gpu.synchronize();
  const std::vector<std::int32_t> rows(gpu.runs(2).rows.data(), gpu.runs(2).rows.data() + 4);  // emulated: readable
  const std::vector<IndexRun> runs(gpu.runs(2).runs.data(), gpu.runs(2).runs.data() + 4);
  CHECK(gpu.draw()->key == 7);
  CHECK(gpu.draw()->first_sequence == 3);
  CHECK(rows == std::vector<std::int32_t>{1, 0, 2, 3});
  const auto is = [&](std::size_t i, std::int32_t index, std::int32_t begin, std::int32_t end) {
    CHECK(runs[i].index == index);
    CHECK(runs[i].begin == begin);
    CHECK(runs[i].end == end);
  };
  is(0, 7, 1, 4), is(1, 3, 0, 1), is(2, 0, 0, 0), is(3, 0, 0, 0);
  CHECK_THROWS_AS(gpu.sort(2, std::vector<std::int32_t>(6)), Error);  // more than there is room for
}

TEST_CASE("indices that all differ are a run each, as they come") {
  Gpu gpu;
  gpu.reserve(2, 3);
  gpu.take_distinct(2, std::vector<std::int32_t>{7, 3});
  gpu.send();
  gpu.synchronize();
  for (std::int32_t row = 0; row < 2; ++row) {
    CHECK(gpu.runs(2).rows.data()[row] == row);
    CHECK(gpu.runs(2).runs.data()[row].index == (row == 0 ? 7 : 3));
    CHECK(gpu.runs(2).runs.data()[row].begin == row);
    CHECK(gpu.runs(2).runs.data()[row].end == row + 1);
  }
  CHECK(gpu.runs(2).count == 2);
  CHECK_THROWS_AS(gpu.take_distinct(2, std::vector<std::int32_t>(4)), Error);
}

TEST_SUITE_END();
