// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: Attention, rotary positions and first_of_sequence run within sequences of tokens; other axes have none.
// expect: error: .*simplx: this operand must run along the axis of tokens
// expect: 4L? == 1
#include <simplx/nn/attention.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
#ifdef FIXED
    Expr x = input("x", rows_of(Axis::tokens, 64));
#else
    Expr x = input("x", rows_of(Axis::batch, 64));
#endif
    return softmax_attention(x, x, x, {.count = 4});
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
