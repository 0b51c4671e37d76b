// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: A model returns an aggregate of which a member is no expression.
// expect: error: .*simplx: a model returns an Expr, or an aggregate of up to four of them
#include <simplx/core/counts.hpp>
#include <simplx/ops/functions.hpp>

using namespace simplx;

struct Results {
  Expr square;
#ifdef FIXED
  Expr root;
#else
  int rows;
#endif
};
struct Net {
  constexpr Results operator()() const {
    Expr x = input("x", rows_of(Axis::batch, 8));
#ifdef FIXED
    return {square(x), sqrt(x)};
#else
    return {square(x), 8};
#endif
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
