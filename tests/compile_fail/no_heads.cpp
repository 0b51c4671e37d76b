// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: The number of heads is zero.
// expect: error: .*simplx: the number of heads \(left number\) must divide the width \(right number\), and be at least 1
// expect: 0L? > 0|at_line<.*0L?, 64
#include <simplx/nn/attention.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
#ifdef FIXED
    return softmax_attention(x, x, x, {.count = 4});
#else
    return softmax_attention(x, x, x, {.count = 0});
#endif
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
