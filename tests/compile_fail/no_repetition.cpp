// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: A column is to be repeated less than once.
// expect: error: .*simplx: repeat_columns\(x, times\) takes every column at least once
#include <simplx/ops/repeat.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Model {
  constexpr Expr operator()() const {
    auto x = input("x", rows_of(Axis::tokens, 8));
#ifdef FIXED
    return repeat_columns(x, 2);
#else
    return repeat_columns(x, 0);
#endif
  }
};
inline constexpr Model model{};
static_assert(GraphOf<model>::count > 0);
