// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: A product of two values with run-time rows would be a matrix of rows by rows, whose width is not known.
// expect: error: .*simplx: in x \* W the right operand must have a static number of rows
#include <simplx/models/decoder.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64)), y = x * weight("w", 64, 64);
#ifdef FIXED
    return x * y;
#else
    return x * transpose(y);
#endif
  }
};
inline constexpr Net model{};
static_assert(parameters<model> > 0);
