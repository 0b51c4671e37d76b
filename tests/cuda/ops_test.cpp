// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/ops.cuh>

#include "cuda/on_device.hpp"

#include <simplx/ops/custom.hpp>
#include <simplx/ops/recompute.hpp>

using namespace simplx;

namespace {

constexpr Shape rows(Index cols) { return rows_of(Axis::tokens, cols); }

struct Pair {
  Expr first, second;
};
/// A product with a pull-back of its own, which runs softmax, products and maps of its own.
constexpr auto mixture = with_pull_back(
    [](Expr x, Expr w) { return softmax(x * w); },
    [](Expr dy, Expr y, Expr x, Expr w) {
      const Expr dz = y * (dy - sum(dy * y, Over::columns));
      return Pair{dz * transpose(w), transpose(x) * dz};
    });
constexpr auto own_rule = [] {
  const Expr x = variable("x", rows(5));
  const Expr y = mixture(x, weight("w", 5, 7, normal(1))) * vector("gain", 7, normal(1));
  return y + mixture(sin(x), weight("v", 5, 7, normal(1))) + sum(x * x);
};
struct Block {
  constexpr Expr operator()(Expr x) const { return x + mixture(x, weight("w", 5, 5, normal(1))); }
};
constexpr auto stacked = [] { return stack("blocks", 3, Block{}, variable("x", rows(5))); };
constexpr auto recomputed = [] { return stack("blocks", 2, recompute(Block{}), variable("x", rows(5))); };

constexpr auto stopped = [] {
  const Expr x = variable("x", rows(37));
  return x * stop_gradient(sin(x)) + stop_gradient(x * scalar("s"));
};

}  // namespace

TEST_SUITE_BEGIN("cuda/ops");

TEST_CASE("a pull-back of its user's own, with several operands and in a stack") {
  test::same_on_device<own_rule>(9);
  test::same_on_device<stacked>(9);
  test::same_on_device<recomputed>(9);
}

TEST_CASE("a gradient that is stopped") { test::same_on_device<stopped>(9); }

TEST_SUITE_END();
