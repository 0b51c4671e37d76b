// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/cells.cuh>

#include "cuda/kernels.hpp"

using namespace simplx;
using namespace simplx::gpu;

namespace {

/// Counts how often each cell is visited.
struct Visit {
  int* visits;
  Index cols;
  __device__ void operator()(Index row, Index col) const { ++visits[row * cols + col]; }
};

}  // namespace

TEST_SUITE_BEGIN("cuda/cells");

TEST_CASE("every cell is visited once, whatever the sizes") {
  for (const Index rows : {0, 1, 7, 300}) {
    for (const Index cols : {1, 2, 5, 31, 32, 33, 70}) {
      CAPTURE(rows);
      CAPTURE(cols);
      std::vector<int> visits(static_cast<std::size_t>(rows * cols));
      each_cell(nullptr, rows, cols, Visit{visits.data(), cols});
      CHECK(visits == std::vector<int>(visits.size(), 1));
    }
  }
}

TEST_CASE("many columns: those beyond the blocks of a grid's y are visited, too") {
  constexpr Index cols = 65535 * 32 + 40;
  std::vector<int> visits(cols);
  each_cell(nullptr, 1, cols, Visit{visits.data(), cols});
  CHECK(visits == std::vector<int>(visits.size(), 1));
}

TEST_CASE("cells move between matrices that lie in any way") {
  const std::vector<float> x{1, 2, 3, 4, 5, 6};  // (2, 3)
  std::vector<float> turned(6, 10);
  move_cells<Write::store>(nullptr, 3, 2, x.data(), {.row = 1, .col = 3}, turned.data(), {.row = 2});
  CHECK(turned == std::vector<float>{1, 4, 2, 5, 3, 6});
  move_cells<Write::accumulate>(nullptr, 1, 2, x.data(), {.row = 3}, turned.data(), {.row = 2});
  CHECK(turned == std::vector<float>{2, 6, 2, 5, 3, 6});
  move_cells<Write::skip>(nullptr, 3, 2, x.data(), {.row = 1}, turned.data(), {.row = 2});
  CHECK(turned[0] == 2);
}

TEST_SUITE_END();
