// SPDX-License-Identifier: MIT
// chapter: Names, stacks and recomputation
// doc: A weight, or another expression, is made and never used, which usually is a slip of the pen.
// expect: error: .*simplx: the compiler cannot evaluate this model, for the reason that it gives below
// reason: simplx: an expression made by the model, e.g. a weight, is never used: remove it or use it
#include <simplx/models/decoder.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64)), unused = weight("unused", 64, 64);
#ifdef FIXED
    return x * unused;
#else
    return x * weight("w", 64, 64);
#endif
  }
};
inline constexpr Net model{};
static_assert(parameters<model> > 0);
