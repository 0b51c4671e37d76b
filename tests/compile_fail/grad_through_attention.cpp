// SPDX-License-Identifier: MIT
// chapter: Derivatives and functions of your own
// doc: grad(y, x) asks for the derivative of an op that has none as an expression.
// expect: error: .*simplx: grad\(y, x\) meets an op whose pull-back is no expression \(left number: the line that made it\)
// expect: at_line<.*, 18L?, 0L?, 18, 
#include <simplx/nn/attention.hpp>
#include <simplx/ops/grad.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
#ifdef FIXED
    Expr y = tanh(x);
#else
    Expr y = softmax_attention(x, x, x, {.count = 4});
#endif
    return grad(y, x);
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
