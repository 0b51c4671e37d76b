// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: The operator() of a model is not constexpr.
// expect: error: .*simplx: the compiler cannot evaluate this model, for the reason that it gives below
// reason: non-.?constexpr.? function .*operator\(\)
#include <simplx/core/counts.hpp>
#include <simplx/ops/functions.hpp>

using namespace simplx;

struct Net {
#ifdef FIXED
  constexpr Expr operator()() const { return relu(input("x", rows_of(Axis::batch, 3))); }
#else
  Expr operator()() const { return relu(input("x", rows_of(Axis::batch, 3))); }
#endif
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
