// SPDX-License-Identifier: MIT
// chapter: Derivatives and functions of your own
// doc: A function with its own pull-back takes more than four operands.
// expect: error: .*simplx: a function with its own pull-back has at most four operands; put some beside each other by concatenate
#include <simplx/ops/custom.hpp>
#include <simplx/ops/columns.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 8));
    constexpr auto f = with_pull_back([](auto... x) { return (x + ...); },
                                      [](Expr dy, auto...) { return dy; });
#ifdef FIXED
    return f(concatenate(x, x, x, x, x));
#else
    return f(x, x, x, x, x);
#endif
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
