// SPDX-License-Identifier: MIT
// chapter: Derivatives and functions of your own
// doc: An expression is frozen, not a parameter.
// expect: error: .*simplx: frozen\(...\) takes a parameter
#include <simplx/core/counts.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/stop_gradient.hpp>

using namespace simplx;

inline constexpr auto model = [] {
  Expr x = variable("x", rows_of(Axis::tokens, 8));
#ifdef FIXED
  return x * (2.0 * frozen(weight("w", 8, 8)));
#else
  return x * frozen(2.0 * weight("w", 8, 8));
#endif
};
static_assert(GraphOf<model>::sound);
