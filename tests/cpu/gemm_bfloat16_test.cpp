// SPDX-License-Identifier: MIT
#include <simplx/cpu/gemm_bfloat16.hpp>

#include <doctest/doctest.h>

#include <vector>

using namespace simplx;
using namespace simplx::cpu;

namespace {

/// Small whole numbers are bfloat16 already, and their sums are exact in float: any order gives the same result.
std::vector<float> numbers(Index count, int seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((static_cast<int>(i) * 7 + seed * 13) % 17 - 8);
  }
  return values;
}

template <Index K, Index N>
void check(Index rows) {
  CAPTURE(rows);
  CAPTURE(K);
  CAPTURE(N);
  const auto x = numbers(rows * K, 1), w = numbers(K * N, 2), dy = numbers(rows * N, 3), dw = numbers(K * N, 4);
  const auto at = [](const auto& matrix, Index row, Index cols, Index col) -> auto& {
    return matrix[static_cast<std::size_t>(row * cols + col)];
  };
  std::vector<Twin> forward(K / 2 * N), backward(N / 2 * K);
  std::vector<Twin> scratch(static_cast<std::size_t>(gradient_pairs(rows, K, N)));
  std::vector<float> y(x.size() / K * N), dx = numbers(rows * K, 5), gradient = dw;

  pack_pairs<K, N>(w.data(), forward.data());
  pack_transposed_pairs<N, K>(w.data(), backward.data());  // the (N, K) transpose of (K, N)
  gemm_bfloat16<K, N, Write::store>(rows, x.data(), forward.data(), y.data(), NoEpilogue{}, scratch.data());
  gemm_bfloat16<N, K, Write::accumulate>(rows, dy.data(), backward.data(), dx.data(), NoEpilogue{}, scratch.data());
  gemm_gradient_bfloat16<K, N>(rows, x.data(), dy.data(), gradient.data(), scratch.data());

  Index wrong = 0;
  const auto before = numbers(rows * K, 5);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < N; ++j) {
      float sum = 0;
      for (Index k = 0; k < K; ++k) sum += at(x, i, K, k) * at(w, k, N, j);
      wrong += at(y, i, N, j) != sum;
    }
    for (Index k = 0; k < K; ++k) {
      float sum = at(before, i, K, k);
      for (Index j = 0; j < N; ++j) sum += at(dy, i, N, j) * at(w, k, N, j);
      wrong += at(dx, i, K, k) != sum;
    }
  }
  for (Index k = 0; k < K; ++k) {
    for (Index j = 0; j < N; ++j) {
      float sum = at(dw, k, N, j);
      for (Index i = 0; i < rows; ++i) sum += at(x, i, K, k) * at(dy, i, N, j);
      wrong += at(gradient, k, N, j) != sum;
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_SUITE("cpu/gemm_bfloat16") {
  TEST_CASE("all three products of training, for any number of rows") {
    for (const Index rows : {1, 2, 5, 6, 7, 16, 33, 129}) {
      check<32, 64>(rows);
      check<48, 32>(rows);
      check<96, 80>(rows);
    }
    check<64, 48>(515);  // more rows than one pass of the gradient takes
  }
}
