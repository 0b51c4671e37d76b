// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/tile.cuh>

#include "cuda/tile_problem.hpp"

using namespace simplx;
using namespace simplx::gpu;

using Cores = CudaCores<float>;

TEST_SUITE_BEGIN("cuda/tile");

TEST_CASE("products of tiles, of few rows and of all, at odd widths") {
  test::check_products<Cores, 16, 8, 1>(16, 8, 16);
  test::check_products<Cores, 16, 8, 33>(3, 5, 16);
  test::check_products<Cores, 32, 16, 5>(32, 9, 16);
  test::check_products<Cores, 64, 32, 64>(50, 32, 16);
}

TEST_CASE("eight rows below one another begin in different banks, whatever the width") {
  CHECK(test::banks_differ(Cores::Tile<8, 1>{}));
  CHECK(test::banks_differ(Cores::Tile<8, 8>{}));
  CHECK(test::banks_differ(Cores::Tile<8, 64>{}));
  CHECK(test::banks_differ(Cores::Tile<8, 77>{}));
}

TEST_SUITE_END();
