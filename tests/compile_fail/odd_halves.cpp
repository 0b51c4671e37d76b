// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: An odd width cannot be split in two halves.
// expect: error: .*simplx: split_columns\(x\) makes two equal halves
// expect: 1L? == 0|65L? % 2L? == 0
#include <simplx/ops/columns.hpp>
#include <simplx/ops/functions.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
#ifdef FIXED
    Expr x = input("x", rows_of(Axis::tokens, 64));
#else
    Expr x = input("x", rows_of(Axis::tokens, 65));
#endif
    auto [value, gate] = split_columns(x);
    return multiply(value, sigmoid(gate));
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
