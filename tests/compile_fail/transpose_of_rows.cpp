// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: The transpose of a value with run-time rows would have a run-time width.
// expect: error: .*simplx: transpose\(x\) by itself needs a static number of rows
// expect: 1L? == 0
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/functions.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64));
#ifdef FIXED
    return transpose(x) * x;
#else
    return transpose(x);
#endif
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
