// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/map.cuh>

#include "cuda/on_device.hpp"

#include <simplx/ops/activation.hpp>
#include <simplx/ops/reduce.hpp>

using namespace simplx;

// An op from outside of the library; 4 and 12 are numbers of no particular type.
SIMPLX_HD_BEGIN
template <>
struct simplx::op<"fourth_power"> : simplx::elementwise {
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto x) { return x * x * x * x; }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x) { return 4 * g * x * x * x; }
};
SIMPLX_HD_END

namespace {

constexpr Shape rows(Index cols) { return rows_of(Axis::tokens, cols); }

/// Everything a group can have: operands of all spreads, literals, members that are kept, costly functions.
template <Index cols>
constexpr auto spreads_of = [] {
  const Expr x = variable("x", rows(cols)), column = variable("column", rows(1));
  const Expr gain = vector("gain", cols, normal(1)), bias = vector("bias", cols, normal(1)), beta = scalar("beta");
  return beta * gelu(multiply(x, gain) + bias) * column + 0.5 * tanh(x) / (2.0 + square(column));
};
constexpr auto spreads = spreads_of<37>;  // a thread has one number of a row at a time, and here two
constexpr auto spreads_in_pairs = spreads_of<1026>;
/// Fours, more than a warp has.
constexpr auto wide = [] {
  const Expr x = variable("x", rows(300));
  return exp(multiply(x, vector("gain", 300, normal(0.1)))) + relu(x) * scalar("alpha");
};
constexpr auto flat = [] {
  const Expr x = variable("x", rows(5)), y = variable("y", rows(5));
  return sigmoid(x) * log1p(square(y)) + max(x, y) + select(x > y, sin(x), cos(y)) + clamp(x, -0.5, 0.5);
};
template <Index cols>
constexpr auto sums_of = [] {
  const Expr x = variable("x", rows(cols)), gain = vector("gain", cols, normal(1));
  return sum(multiply(x, gain), Over::rows) + mean(square(x), Over::rows);
};
constexpr auto sums = sums_of<41>;
constexpr auto sums_in_fours = sums_of<44>;
constexpr auto along = [] {
  const Expr x = variable("x", rows(300));
  return sum(square(x), Over::columns) * mean(x * scalar("alpha"), Over::columns);
};
constexpr auto everything = [] {
  const Expr x = variable("x", rows(3));
  return mean(exp(x)) + sum(multiply(x, x));
};

constexpr auto own_op = [] {
  const Expr x = variable("x", rows(7));
  return apply<"fourth_power">({}, At(x)) + x;
};

}  // namespace

TEST_SUITE_BEGIN("cuda/map");

TEST_CASE("a group has the values and gradients of the CPU, whatever its operands are spread over") {
  test::same_on_device<spreads>(9);
  test::same_on_device<spreads_in_pairs>(3);
  test::same_on_device<wide>(3);
  test::same_on_device<flat>(60);
}

TEST_CASE("many rows: a block has several, and parts are added up") { test::same_on_device<spreads>(1100); }

TEST_CASE("an elementwise op of its user's own") { test::same_on_device<own_op>(9); }

TEST_CASE("sums over rows, columns and all") {
  test::same_on_device<sums>(7);
  test::same_on_device<sums_in_fours>(7);
  test::same_on_device<sums>(0);  // the mean of no rows is 0
  test::same_on_device<along>(4);
  test::same_on_device<everything>(50);
}

TEST_SUITE_END();
