// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: Elementwise operands have different static numbers of rows.
// expect: error: .*simplx: these operands must have equal numbers of rows \(left and right number\)
// expect: 10L? == 20
#include <simplx/core/counts.hpp>
#include <simplx/ops/functions.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
#ifdef FIXED
    return weight("a", 20, 8) + weight("b", 20, 8);
#else
    return weight("a", 10, 8) + weight("b", 20, 8);
#endif
  }
};
inline constexpr Net model{};
static_assert(parameters<model> > 0);
