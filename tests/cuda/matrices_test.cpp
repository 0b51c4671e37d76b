// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/matrices.cuh>

#include "cuda/on_device.hpp"

#include <simplx/ops/batched_matmul.hpp>
#include <simplx/ops/matmul.hpp>

using namespace simplx;

namespace {

constexpr Shape rows(Index cols) { return rows_of(Axis::tokens, cols); }

constexpr auto turned = [] {
  const Expr w = weight("w", 35, 9, normal(1));
  return sin(transpose(w)) + transpose(multiply(w, w)) * scalar("s") + transpose(w);
};
/// A^T B over run-time rows; one operand twice.
constexpr auto contracted = [] {
  const Expr x = variable("x", rows(5)), y = variable("y", rows(37));
  return sin(transpose(x) * y) * scalar("s") + transpose(sin(x)) * y;
};
constexpr auto squared = [] {
  const Expr x = variable("x", rows(5));
  return transpose(x) * x;
};
constexpr auto small = [] {
  const Expr a = variable("a", rows(3 * 4)), b = variable("b", rows(4 * 5));
  return batched_matmul(a, b, 3, 4, 5) * batched_matmul(sin(a), b, 3, 4, 5);
};
constexpr auto of_itself = [] {
  const Expr a = variable("a", rows(7 * 7));
  return batched_matmul(a, a, 7, 7, 7) + concatenate(batched_matmul(a, a, 1, 49, 1), slice_columns(a, 0, 48));
};

}  // namespace

TEST_SUITE_BEGIN("cuda/matrices");

TEST_CASE("copies of transposed weights") { test::same_on_device<turned>(0); }

TEST_CASE("products summed over rows") {
  test::same_on_device<contracted>(21);
  test::same_on_device<contracted>(0);
  test::same_on_device<squared>(6);
  test::float_on_device<contracted>(21);
}

TEST_CASE("a small product for each row, with gradients that add up") {
  test::same_on_device<small>(9);
  test::same_on_device<of_itself>(5);
}

TEST_SUITE_END();
