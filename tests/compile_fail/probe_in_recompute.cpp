// SPDX-License-Identifier: MIT
// chapter: Names, stacks and recomputation
// doc: A module that is evaluated again in backward contains a probe.
// expect: error: .*simplx: a module that is recomputed contains a probe \(left number: its line\)
#include <simplx/ops/recompute.hpp>
#include <simplx/ops/functions.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
#ifdef FIXED
    return probe("h", recompute([](Expr y) { return tanh(y); })(x));
#else
    return recompute([](Expr y) { return probe("h", tanh(y)); })(x);
#endif
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
