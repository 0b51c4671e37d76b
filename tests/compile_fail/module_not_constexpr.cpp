// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: The operator() of a module is not constexpr.
// expect: error: .*simplx: the compiler cannot evaluate this model, for the reason that it gives below
// expect: non-.?constexpr.? function .*operator\(\)
#include <simplx/core/counts.hpp>
#include <simplx/ops/functions.hpp>

using namespace simplx;

struct Module {
#ifdef FIXED
  constexpr Expr operator()(Expr x) const { return relu(x); }
#else
  Expr operator()(Expr x) const { return relu(x); }
#endif
};
struct Net {
  constexpr Expr operator()() const { return Module{}(input("x", rows_of(Axis::batch, 3))); }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
