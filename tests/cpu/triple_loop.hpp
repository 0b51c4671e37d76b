// SPDX-License-Identifier: MIT
#pragma once

/// What products are held against: the triple loop, over numbers for which any order of additions is exact.

#include <simplx/core/shape.hpp>

#include <cstddef>
#include <vector>

namespace test {

using simplx::Index;

/// Small whole numbers, so that sums are exact in float and any order of additions gives the same result.
template <class S>
std::vector<S> numbers(Index count, int seed) {
  std::vector<S> values(static_cast<std::size_t>(count) + 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<S>((static_cast<int>(i) * 7 + seed * 13) % 17 - 8);
  }
  return values;
}

/// The triple loop, in double: a (rows, inner) with the strides given, times b (inner, cols), dense.
template <class S>
std::vector<double> product(Index rows, Index inner, Index cols, const S* a, Index a_row, Index a_col, const S* b) {
  std::vector<double> c(static_cast<std::size_t>(rows * cols));
  for (Index i = 0; i < rows; ++i) {
    for (Index k = 0; k < inner; ++k) {
      const double left = a[i * a_row + k * a_col];
      for (Index j = 0; j < cols; ++j) c[static_cast<std::size_t>(i * cols + j)] += left * b[k * cols + j];
    }
  }
  return c;
}

}  // namespace test
