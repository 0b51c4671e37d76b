// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: Rows are cut from a value whose number of rows is known at run time only.
// expect: error: .*simplx: slice_rows\(x, begin, count\) needs a static number of rows
// expect: 1L? == 0
#include <simplx/ops/rows.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
#ifdef FIXED
    return gather(x, indices("first", Axis::sequences));
#else
    return slice_rows(x, 0, 4);
#endif
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
