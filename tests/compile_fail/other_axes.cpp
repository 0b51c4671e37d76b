// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: Elementwise operands run along different axes: here one row for each sequence meets one for each token.
// expect: error: .*simplx: these operands must run along one axis
// expect: 2L? == 1
#include <simplx/core/counts.hpp>
#include <simplx/ops/rows.hpp>
#include <simplx/ops/functions.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::tokens, 64)), sequence = input("sequence", rows_of(Axis::sequences, 64));
#ifdef FIXED
    return x + gather(sequence, indices("sequence_of", Axis::tokens));
#else
    return x + sequence;
#endif
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
