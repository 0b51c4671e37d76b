// SPDX-License-Identifier: MIT
// chapter: Derivatives and functions of your own
// doc: A function with its own pull-back, or the pull-back, makes a parameter.
// expect: error: .*simplx: a function with its own pull-back, or the pull-back, makes a parameter
#include <simplx/ops/custom.hpp>
#include <simplx/ops/functions.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/reduce.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Gradients {
  Expr x, gain;
};
struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
#ifdef FIXED
    constexpr auto f = with_pull_back([](Expr x, Expr gain) { return x * gain; },
                                      [](Expr dy, Expr, Expr x, Expr gain) { 
                                        return Gradients{dy * gain, sum(dy * x, Over::rows)};
                                      });
    return f(x, vector("gain", 64));
#else
    constexpr auto f = with_pull_back([](Expr x) { return x * vector("gain", 64); },
                                      [](Expr dy, Expr, Expr) { return dy; });
    return f(x);
#endif
  }
};
inline constexpr Net model{};
static_assert(parameters<model> > 0);
