// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: A slice begins before the first column, or takes none.
// expect: error: .*simplx: a slice begins at 0 or later \(left number\) and takes at least 1 column or row
// expect-gcc: 0 >= 1
// expect-clang: 0L >= 1
#include <simplx/ops/columns.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
#ifdef FIXED
    return slice_columns(x, 48, 16);
#else
    return slice_columns(x, 48, 0);
#endif
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
