// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: Elementwise operands have different widths.
// expect: error: .*simplx: elementwise operands must have equal widths
// expect: 64L? == 128
// expect: a matrix product is x \* weight
#include <simplx/models/decoder.hpp>

using namespace simplx;

struct Sum {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 128));
#ifdef FIXED
    return x + vector("bias", 128);
#else
    return x + vector("bias", 64);
#endif
  }
};
inline constexpr Sum model{};
static_assert(parameters<model> > 0);
