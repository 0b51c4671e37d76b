// SPDX-License-Identifier: MIT
// chapter: Names, stacks and recomputation
// doc: A module is applied to ten inputs with one set of parameters.
// expect: error: .*simplx: siamese takes at most nine inputs
#include <simplx/ops/siamese.hpp>
#include <simplx/ops/functions.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Score {
  constexpr Expr operator()(Expr x) const { return x * weight("score", width(x), 1); }
};
struct Best {
  constexpr Expr operator()() const {
    const Expr x = input("x", rows_of(Axis::batch, 64));
#ifdef FIXED
    return Score{}(x);  // of ten times as many rows
#else
    return siamese(Score{}, x, x, x, x, x, x, x, x, x, x)[0];
#endif
  }
};
inline constexpr Best model{};
static_assert(GraphOf<model>::count > 0);
