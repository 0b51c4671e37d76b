// SPDX-License-Identifier: MIT
// chapter: Names, stacks and recomputation
// doc: The blocks of two stacks within a stack use what was made in the outer block.
// expect: error: .*simplx: the block of a stack, a module that is recomputed, or a function with its own pull-back uses
// expect: at_line<.*, 19L?, 20L?
#include <simplx/models/decoder.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    auto outer = [](Expr y) {
#ifdef FIXED
      auto block = [](Expr z) { return z * weight("own", 64, 64); };
      Expr first = stack("first", 2, block, y);
      return stack("second", 2, block, first) + first;
#else
      Expr shared = weight("shared", 64, 64);
      Expr first = stack("first", 2, [shared](Expr z) { return z * shared; }, y);
      return stack("second", 2, [first](Expr z) { return z + first; }, first);
#endif
    };
    return stack("outer", 2, outer, input("x", rows_of(Axis::tokens, 64)));
  }
};
inline constexpr Net model{};
static_assert(parameters<model> > 0);
