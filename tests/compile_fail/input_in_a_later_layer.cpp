// SPDX-License-Identifier: MIT
// chapter: Names, stacks and recomputation
// doc: A layer of a stack, though not the first, makes an input.
// expect: error: .*simplx: one of the later layers of a stack makes an input; make inputs outside of the stack
#include <simplx/ops/stack.hpp>
#include <simplx/ops/functions.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Noisy {
  constexpr Expr operator()(int layer, Expr y) const {
#ifdef FIXED
    return layer == 1 ? tanh(y) : y;
#else
    return layer == 1 ? y + input("noise", rows_of(Axis::tokens, 64)) : y;
#endif
  }
};
struct Net {
  constexpr Expr operator()() const { return stack("blocks", 2, Noisy{}, input("x", rows_of(Axis::tokens, 64))); }
};
inline constexpr Net model{};
static_assert(parameters<model> == 0);
