// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/labelled_losses.cuh>

#include "cuda/kernels.hpp"

using namespace simplx;
using namespace simplx::gpu;

TEST_CASE("cuda/labelled_losses: rows without a label are no part of the sum, nor of the gradient") {
  for (const Index rows : {0, 1, 300, 2500}) {
    CAPTURE(rows);
    std::vector<float> losses = test::numbers<float>(rows, 1);
    std::vector<std::int32_t> labels;
    double exact = 0;
    for (Index row = 0; row < rows; ++row) {
      labels.push_back(row % 3 == 1 ? ignored_label : static_cast<std::int32_t>(row));
      if (row % 3 == 1) {
        losses[static_cast<std::size_t>(row)] = std::numeric_limits<float>::quiet_NaN();
      } else {
        exact += static_cast<double>(losses[static_cast<std::size_t>(row)]);
      }
    }
    const std::vector<float> scale{0.25f};
    const auto sums = test::same_bits([&] {
      std::vector<double> sums{std::numeric_limits<double>::quiet_NaN(), 7};
      sum_losses(nullptr, losses.data(), labels.data(), rows, &sums[0]);
      sum_losses<Write::accumulate>(nullptr, losses.data(), labels.data(), rows, &sums[1]);
      return sums;
    });
    CHECK(sums[0] == doctest::Approx(exact).epsilon(1e-12));
    CHECK(sums[1] == doctest::Approx(7 + exact).epsilon(1e-12));
    const auto seeds = test::same_bits([&] {
      auto seeds = test::unwritten<float>(rows);
      seed_losses(nullptr, seeds.data(), labels.data(), rows, scale.data());
      return seeds;
    });
    for (std::size_t row = 0; row < seeds.size(); ++row) CHECK(seeds[row] == (row % 3 == 1 ? 0 : 0.25f));
  }
}
