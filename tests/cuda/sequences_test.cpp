// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/sequences.cuh>

#include "cuda/on_device.hpp"

#include <simplx/cuda/ops.cuh>
#include <simplx/ops/reduce.hpp>

using namespace simplx;

namespace {

constexpr auto of_sequences = [] {
  const Expr x = variable("x", rows_of(Axis::tokens, 37)), z = variable("z", rows_of(Axis::sequences, 37));
  return tanh(repeat_over_sequence(z * mean_of_sequence(square(x))) * x) +
         repeat_over_sequence(sum_of_sequence(x) + mean_of_sequence(x));
};

}  // namespace

TEST_CASE("cuda/sequences: sums and means of sequences, and rows of sequences for their tokens") {
  test::same_on_device<of_sequences>(21, {9, 1, 0, 11});
  test::same_on_device<of_sequences>(3, {0, 3, 0});
  test::float_on_device<of_sequences>(130, {130});
}
