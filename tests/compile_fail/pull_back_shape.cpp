// SPDX-License-Identifier: MIT
// chapter: Derivatives and functions of your own
// doc: A function's own pull-back gives a gradient of another shape than its operand.
// expect: error: .*simplx: a function's own pull-back must give a gradient of the shape of each operand
// expect: 1L? == 64
#include <simplx/ops/custom.hpp>
#include <simplx/ops/functions.hpp>
#include <simplx/ops/reduce.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
#ifdef FIXED
    constexpr auto f = with_pull_back([](Expr x) { return x; },
                                      [](Expr dy, Expr, Expr) { return clamp(dy, -1.0, 1.0); });
#else
    constexpr auto f = with_pull_back([](Expr x) { return x; },
                                      [](Expr dy, Expr, Expr) { return sum(dy, Over::columns); });
#endif
    return f(x);
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
