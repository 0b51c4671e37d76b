// SPDX-License-Identifier: MIT
// chapter: Names, stacks and recomputation
// doc: The block of a stack uses an expression that was made outside of it.
// expect: error: .*simplx: the block of a stack, a module that is recomputed, or a function with its own pull-back uses
// expect: at_line<.*, 16L?, 17L?
#include <simplx/models/decoder.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
#ifdef FIXED
    return stack("blocks", 2, Shared{[](Expr y) { return y * weight("shared", 64, 64); }}, x);
#else
    Expr shared = weight("shared", 64, 64);
    return stack("blocks", 2, [shared](Expr y) { return y * shared; }, x);
#endif
  }
};
inline constexpr Net model{};
static_assert(parameters<model> > 0);
