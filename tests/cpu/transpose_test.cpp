// SPDX-License-Identifier: MIT
#include <simplx/cpu/transpose.hpp>

#include <doctest/doctest.h>

#include <vector>

using namespace simplx;
using namespace simplx::cpu;

TEST_CASE_TEMPLATE("cpu/transpose: rows become lanes, scaled, and lanes without a row are zero", S, float, double) {
  constexpr int width = 32, group = 16, stride = 40;
  std::vector<S> source(group * stride);
  for (int i = 0; i < group * stride; ++i) source[i] = S(i + 1);
  for (const Index rows : {0, 1, 7, 8, 15, 16}) {
    std::vector<S> target(width * group + 1, S(-1));
    transpose_group<width, group>(rows, S(2), source.data(), Index(stride), target.data());
    int wrong = 0;
    for (int e = 0; e < width; ++e) {
      for (int i = 0; i < group; ++i) wrong += target[e * group + i] != (i < rows ? 2 * source[i * stride + e] : S(0));
    }
    CHECK(wrong == 0);
    CHECK(target.back() == S(-1));
  }
}
