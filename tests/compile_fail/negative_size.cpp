// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: A parameter, a constant or an input has a size below 1.
// expect: error: .*simplx: a parameter, a constant or an input has at least 1 row .* and 1 column \(right number\)
// expect: -3L? >= 1|at_line<.*4L?, -3
#include <simplx/ops/matmul.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 4));
#ifdef FIXED
    return x * weight("w", 4, 3);
#else
    return x * weight("w", 4, -3);
#endif
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
