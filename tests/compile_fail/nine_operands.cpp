// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: An op is given more than eight operands.
// expect: error: .*simplx: an op has at most eight operands; nest two of them
#include <simplx/ops/columns.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
#ifdef FIXED
    return concatenate(concatenate(x, x, x, x), x, x, x, x, x);
#else
    return concatenate(x, x, x, x, x, x, x, x, x);
#endif
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
