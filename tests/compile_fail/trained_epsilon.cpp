// SPDX-License-Identifier: MIT
// chapter: Derivatives and functions of your own
// doc: An operand is trained for which the op has no pull-back.
// expect: error: .*simplx: this operand of an op .* has no gradient, but depends on something that is trained
#include <simplx/core/counts.hpp>
#include <simplx/ops/norm.hpp>

using namespace simplx;

inline constexpr auto model = [] {
  Expr x = variable("x", rows_of(Axis::tokens, 8));
#ifdef FIXED
  return rms_norm(x, vector("gain", 8), hyper("epsilon", 1e-5));
#else
  return rms_norm(x, vector("gain", 8), scalar("epsilon", constant(1e-5)));
#endif
};
static_assert(GraphOf<model>::sound);
