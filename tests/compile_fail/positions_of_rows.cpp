// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: A table of positions is computed from run-time rows.
// expect: error: .*simplx: positions\(table\) needs a table with a static number of rows
// expect: 1L? == 0
#include <simplx/ops/embedding.hpp>
#include <simplx/ops/functions.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
#ifdef FIXED
    return x + positions(weight("position.weight", 128, 64));
#else
    return x + positions(x);
#endif
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
