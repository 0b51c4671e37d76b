// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: A slice reaches beyond the last column or row.
// expect: error: .*simplx: a slice must end inside x
// expect: 96L? <= 64
#include <simplx/ops/columns.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
#ifdef FIXED
    return slice_columns(x, 48, 16);
#else
    return slice_columns(x, 48, 48);
#endif
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
