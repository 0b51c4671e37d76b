// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: Blocks of columns are to be repeated that do not divide the columns.
// expect: error: .*simplx: repeat_columns\(x, times, width\) takes blocks of `width` columns
#include <simplx/ops/repeat.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Model {
  constexpr Expr operator()() const {
    auto x = input("x", rows_of(Axis::tokens, 8));
#ifdef FIXED
    return repeat_columns(x, 2, 4);
#else
    return repeat_columns(x, 2, 3);
#endif
  }
};
inline constexpr Model model{};
static_assert(GraphOf<model>::count > 0);
