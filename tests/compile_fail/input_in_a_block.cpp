// SPDX-License-Identifier: MIT
// chapter: Names, stacks and recomputation
// doc: The block of a stack makes an input, which each layer would ask for.
// expect: error: .*simplx: the block of a stack makes an input \(left number: its line\)
#include <simplx/ops/stack.hpp>
#include <simplx/ops/functions.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
#ifdef FIXED
    return stack("blocks", 2, [](Expr y) { return tanh(y); }, x + input("noise", rows_of(Axis::tokens, 64)));
#else
    return stack("blocks", 2, [](Expr y) { return y + input("noise", rows_of(Axis::tokens, 64)); }, x);
#endif
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
