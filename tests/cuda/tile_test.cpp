// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/tile.cuh>

#include "cuda/kernels.hpp"

using namespace simplx;

namespace {

template <int rows, int count, int width>
struct Tiles {
  detail::Tile<float, rows, width> x;
  detail::Tile<float, count, width> y;
  detail::Tile<float, rows, count> weights;
};

/// scores = X Y^T, product = X Y^T Y and the largest and the sum of each row of scores, of x_rows and y_rows rows.
template <int rows, int count, int width>
void products(const float* x, const float* y, int x_rows, int y_rows, float* scores, float* product, float* ends) {
  using namespace detail;
  using All = Tiles<rows, count, width>;
  SIMPLX_SHARED(tiles, All);
  load_tile<2 * rows>(tiles.x, x, width, x_rows, 0.5f);
  load_tile<2 * rows>(tiles.y, y, width, y_rows);
  __syncthreads();
  OwnScores<float, count> own;
  OwnProduct<float, width> sums = {};
  multiply_rows(tiles.x, tiles.y, own);
  float total[own_rows] = {}, largest[own_rows] = {};
  each_score<count>([&](int a, int b, int row, int col) {
    scores[row * count + col] = tiles.weights(row, col) = own[a][b];
    total[a] += own[a][b];
    largest[a] = own[a][b] > largest[a] ? own[a][b] : largest[a];
  });
  for (int a = 0; a < own_rows; ++a) {
    total[a] = row_sum(total[a]);
    largest[a] = row_max(largest[a]);
    if (own_col(0) == 0) ends[2 * own_row(a)] = total[a], ends[2 * own_row(a) + 1] = largest[a];
  }
  __syncwarp();
  add_product(tiles.weights, tiles.y, sums);
  each_own<width>(sums, x_rows, [&](int, int row, int col, float sum) { product[row * width + col] += sum; });
}

template <int rows, int count, int width>
void check_products(int x_rows, int y_rows) {
  CAPTURE(width);
  const auto x = test::numbers<float>(x_rows * width, 1), y = test::numbers<float>(y_rows * width, 2);
  const auto before = test::numbers<float>(rows * width, 3);
  std::vector<double> scores(rows * count), product(before.begin(), before.end()), ends(2 * rows);
  for (int i = 0; i < x_rows; ++i) {
    for (int j = 0; j < y_rows; ++j) {
      double& score = scores[static_cast<std::size_t>(i * count + j)];
      for (int c = 0; c < width; ++c) {
        score += 0.5 * double(x[static_cast<std::size_t>(i * width + c)]) *
                 double(y[static_cast<std::size_t>(j * width + c)]);
      }
      const auto row = static_cast<std::size_t>(2 * i);
      ends[row] += score, ends[row + 1] = std::max(ends[row + 1], score);
      for (int c = 0; c < width; ++c) {
        product[static_cast<std::size_t>(i * width + c)] += score * double(y[static_cast<std::size_t>(j * width + c)]);
      }
    }
  }
  std::vector<float> found_scores, found_product, found_ends;
  test::same_bits([&] {
    found_scores = test::unwritten<float>(rows * count), found_ends = test::unwritten<float>(2 * rows);
    found_product = before;
    launch(nullptr, products<rows, count, width>, 1, 2 * rows, x.data(), y.data(), x_rows, y_rows,
           found_scores.data(), found_product.data(), found_ends.data());
    return test::joined<float>({found_scores, found_product, found_ends});
  });
  CHECK(test::distance(found_scores, scores) < 16);
  CHECK(test::distance(found_product, product) < 16);
  CHECK(test::distance(found_ends, ends) < 16);
}

}  // namespace

TEST_SUITE_BEGIN("cuda/tile");

TEST_CASE("products of tiles, of few rows and of all, at odd widths") {
  check_products<16, 8, 1>(16, 8);
  check_products<16, 8, 33>(3, 5);
  check_products<32, 16, 5>(32, 9);
  check_products<64, 32, 64>(50, 32);
}

TEST_CASE("eight rows below one another begin in different banks, whatever the width") {
  const auto check = [](auto tile) {
    bool taken[8] = {};
    for (int row = 0; row < 8; ++row) {
      bool& bank = taken[row * sizeof tile.at[0] / sizeof tile.at[0][0] % 8];
      CHECK(!bank);
      bank = true;
    }
  };
  check(detail::Tile<float, 8, 1>{});
  check(detail::Tile<float, 8, 8>{});
  check(detail::Tile<float, 8, 64>{});
  check(detail::Tile<float, 8, 77>{});
}

TEST_SUITE_END();
