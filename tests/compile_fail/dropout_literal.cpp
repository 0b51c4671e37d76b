// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: A dropout rate that is written as a number is no probability.
// expect: error: .*simplx: a dropout rate \(left number, in thousandths\) is the probability to drop a number
// expect: 1500L?, 1000
#include <simplx/core/counts.hpp>
#include <simplx/ops/dropout.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::batch, 8));
#ifdef FIXED
    return dropout("mask", x, 0.15);
#else
    return dropout("mask", x, 1.5);
#endif
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
