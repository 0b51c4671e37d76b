// SPDX-License-Identifier: MIT
// chapter: Names, stacks and recomputation
// doc: The block of a stack returns another width than it is given, so that it cannot be applied again.
// expect: error: .*simplx: a block of a stack must return the shape that it is given: its result has the width
// expect: 32L? == 64
#include <simplx/models/decoder.hpp>

using namespace simplx;

struct Narrowing {
  constexpr Expr operator()(Expr x) const {
#ifdef FIXED
    return x * weight("w", 64, 64);
#else
    return x * weight("w", 64, 32);
#endif
  }
};
struct Net {
  constexpr Expr operator()() const { return stack("blocks", 2, Narrowing{}, input("x", rows_of(Axis::tokens, 64))); }
};
inline constexpr Net model{};
static_assert(parameters<model> > 0);
