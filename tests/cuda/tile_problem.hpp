// SPDX-License-Identifier: MIT
#pragma once

/// The two products of a kind of cores, X Y^T and W Y, against sums in double.

#include "cuda/kernels.hpp"

#include <simplx/cuda/tile.cuh>

namespace test {

template <class Cores, int rows, int count, int width>
struct Tiles {
  typename Cores::template Tile<rows, width> x;
  typename Cores::template Tile<count, width> y;
  typename Cores::template Weights<rows, count> weights;
};

/// scores = X Y^T, product += X Y^T Y, and the largest and the sum of each row of scores, of x_rows and y_rows rows.
template <class Cores, int rows, int count, int width>
__global__ void products_of_tiles(const float* x, const float* y, int x_rows, int y_rows, float* scores,
                                  float* product, float* ends) {
  using All = Tiles<Cores, rows, count, width>;
  constexpr int own_rows = Cores::own_rows, threads = rows / Cores::warp_rows * warp_lanes;
  SIMPLX_SHARED(tiles, All);
  Cores::template load<threads>(tiles.x, x, 0, width, x_rows);
  Cores::template load<threads>(tiles.y, y, 0, width, y_rows);
  Cores::arrive();
  __syncthreads();
  typename Cores::template Scores<count> own;
  typename Cores::template Product<width> sums = {};
  Cores::multiply_rows(tiles.x, tiles.y, own);
  float total[own_rows] = {}, largest[own_rows] = {};
  Cores::template each_score<count>([&](int a, int b, int row, int col) {
    scores[row * count + col] = own[a][b];
    total[a] += own[a][b];
    largest[a] = own[a][b] > largest[a] ? own[a][b] : largest[a];
  });
  for (int a = 0; a < own_rows; ++a) {
    total[a] = Cores::row_sum(total[a]);
    largest[a] = Cores::row_max(largest[a]);
    if (Cores::own_col(0) == 0) ends[2 * Cores::own_row(a)] = total[a], ends[2 * Cores::own_row(a) + 1] = largest[a];
    Cores::template scale_row<width>(sums, a, 0.0f);
  }
  Cores::add_product(own, tiles.weights, tiles.y, sums);
  Cores::template each_own<width>(x_rows, [&](int a, int c, int row, int col) {
    const auto numbers = Cores::template own<width>(sums, a, c);
    write_numbers<Write::accumulate>(product + row * width + col, numbers);
  });
}

/// `roundings` of float, for scores and what is made of them.
template <class Cores, int rows, int count, int width>
void check_products(int x_rows, int y_rows, double roundings) {
  CAPTURE(width);
  const auto x = numbers<float>(x_rows * width, 1), y = numbers<float>(y_rows * width, 2);
  const auto before = numbers<float>(rows * width, 3);
  std::vector<double> scores(rows * count), product(before.begin(), before.end()), ends(2 * rows);
  for (int i = 0; i < x_rows; ++i) {
    for (int j = 0; j < y_rows; ++j) {
      double& score = scores[static_cast<std::size_t>(i * count + j)];
      for (int c = 0; c < width; ++c) {
        score += double(x[static_cast<std::size_t>(i * width + c)]) *
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
  same_bits([&] {
    found_scores = unwritten<float>(rows * count), found_ends = unwritten<float>(2 * rows);
    found_product = before;
    launch(nullptr, products_of_tiles<Cores, rows, count, width>, 1, rows / Cores::warp_rows * warp_lanes, x.data(),
           y.data(), x_rows, y_rows, found_scores.data(), found_product.data(), found_ends.data());
    return joined<float>({found_scores, found_product, found_ends});
  });
  CHECK(distance(found_scores, scores) < roundings);
  CHECK(distance(found_product, product) < roundings);
  CHECK(distance(found_ends, ends) < roundings);
}

/// Whether eight rows below one another begin in different banks.
template <class Tile>
bool banks_differ(const Tile& tile) {
  bool taken[8] = {}, differ = true;
  for (std::size_t row = 0; row < 8; ++row) {
    bool& bank = taken[row * sizeof tile.at[0] / 16 % 8];
    differ = differ && !bank;
    bank = true;
  }
  return differ;
}

}  // namespace test
