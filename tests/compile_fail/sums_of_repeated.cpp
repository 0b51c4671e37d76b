// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: Groups of columns are to be added up that do not divide the columns.
// expect: error: .*simplx: sum_of_repeated\(x, times, width\) adds up groups of times \* width columns
#include <simplx/ops/repeat.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Model {
  constexpr Expr operator()() const {
    auto x = input("x", rows_of(Axis::tokens, 8));
#ifdef FIXED
    return sum_of_repeated(x, 2, 4);
#else
    return sum_of_repeated(x, 3);
#endif
  }
};
inline constexpr Model model{};
static_assert(GraphOf<model>::count > 0);
