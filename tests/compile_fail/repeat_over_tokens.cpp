// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: What has a row for each token is repeated over sequences.
// expect: error: .*simplx: this operand must have a row for each sequence
// expect: 1L? == 2
#include <simplx/ops/sequences.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
#ifdef FIXED
    Expr x = input("x", rows_of(Axis::sequences, 64));
#else
    Expr x = input("x", rows_of(Axis::tokens, 64));
#endif
    return repeat_over_sequence(x);
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
