// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: Whole numbers that name rows are used like real ones.
// expect: error: .*simplx: indices\(...\) are whole numbers that name rows or classes
#include <simplx/core/counts.hpp>
#include <simplx/ops/reduce.hpp>

using namespace simplx;

inline constexpr auto model = [] {
  Expr x = input("x", rows_of(Axis::batch, 1));
#ifdef FIXED
  Expr y = input("y", rows_of(Axis::batch, 1));
#else
  Expr y = indices("y", Axis::batch);
#endif
  return mean(square(x - y));
};
static_assert(GraphOf<model>::sound);
