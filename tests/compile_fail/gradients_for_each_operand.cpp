// SPDX-License-Identifier: MIT
// chapter: Derivatives and functions of your own
// doc: A function's own pull-back forgets an operand.
// expect: error: .*simplx: a function's own pull-back must give one gradient for each operand
// expect: 1L? == 2
#include <simplx/ops/custom.hpp>
#include <simplx/ops/functions.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Gradients {
  Expr a, b;
};
struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
#ifdef FIXED
    constexpr auto f = with_pull_back([](Expr a, Expr b) { return a + b; },
                                      [](Expr dy, Expr, Expr, Expr) { return Gradients{dy, dy}; });
#else
    constexpr auto f = with_pull_back([](Expr a, Expr b) { return a + b; },
                                      [](Expr dy, Expr, Expr, Expr) { return dy; });
#endif
    return f(x, x);
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
