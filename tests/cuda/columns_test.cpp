// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/columns.cuh>

#include "cuda/on_device.hpp"

#include <simplx/ops/columns.hpp>
#include <simplx/ops/repeat.hpp>

using namespace simplx;

namespace {

constexpr Shape rows(Index cols) { return rows_of(Axis::tokens, cols); }

/// Slices of one operand: the first stores its gradient between zeros, the others add to it.
constexpr auto slices = [] {
  const Expr x = variable("x", rows(37));
  const Expr y = tanh(slice_columns(x, 5, 9)) * slice_columns(x, 28, 9);
  return slice_columns(y, 0, 9) + slice_columns(x, 1, 9);
};
constexpr auto whole = [] { return slice_columns(variable("x", rows(3)), 0, 3); };
/// Operands of all kinds of widths, one of them twice, and one that takes no gradient.
constexpr auto beside = [] {
  const Expr x = variable("x", rows(1)), y = variable("y", rows(35)), z = stop_gradient(variable("z", rows(8)));
  return concatenate(x, y, sin(x), z, y);
};
constexpr auto of_weights = [] {
  const Expr w = weight("w", 6, 5, normal(1)), v = weight("v", 6, 3, normal(1));
  return concatenate(w, slice_columns(concatenate(v, w), 2, 4)) * scalar("s");
};
constexpr auto copies = [] {
  const Expr x = variable("x", rows(3)), y = variable("y", rows(35));
  return multiply(repeat_columns(x, 35), repeat_columns(y, 3)) + repeat_columns(x, 35) + repeat_columns(sin(y), 3);
};
constexpr auto copies_of_blocks = [] {
  const Expr x = variable("x", rows(6)), y = variable("y", rows(70));
  return multiply(repeat_columns(x, 35, 3), repeat_columns(y, 3, 35)) + repeat_columns(sin(x), 35, 6);
};
constexpr auto summed_copies = [] {  // the pull-back as an op of its own, which gradients within expressions have
  const Expr x = variable("x", rows(210)), y = variable("y", rows(18));
  return sum_of_repeated(x, 35, 3) * sum_of_repeated(y, 3);
};

}  // namespace

TEST_SUITE_BEGIN("cuda/columns");

TEST_CASE("slices, and the gradient between them") {
  test::same_on_device<slices>(9);
  test::same_on_device<slices>(0);
  test::same_on_device<whole>(300);
}

TEST_CASE("columns beside each other") {
  test::same_on_device<beside>(11);
  test::same_on_device<of_weights>(0);
}

TEST_CASE("each column several times") {
  test::same_on_device<copies>(7);
  test::float_on_device<copies>(7);
  test::same_on_device<copies_of_blocks>(7);
  test::same_on_device<copies_of_blocks>(0);
  test::same_on_device<summed_copies>(7);
}

TEST_SUITE_END();
