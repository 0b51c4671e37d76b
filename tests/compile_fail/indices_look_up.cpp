// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: A table is looked up by real numbers.
// expect: error: .*simplx: a table is looked up by indices
#include <simplx/models/decoder.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
    Expr table = weight("table", 10, 64);
#ifdef FIXED
    return embedding(table, indices("tokens", Axis::tokens)) + x;
#else
    return embedding(table, x) + x;
#endif
  }
};
inline constexpr Net model{};
static_assert(parameters<model> > 0);
