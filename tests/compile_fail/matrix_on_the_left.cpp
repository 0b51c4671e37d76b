// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: A linear map is written as for column vectors.
// expect: error: .*simplx: a matrix of static rows .* stands left of run-time rows
#include <simplx/core/counts.hpp>
#include <simplx/ops/matmul.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr x = input("x", rows_of(Axis::batch, 3));
    Expr w = weight("w", 3, 5);
#ifdef FIXED
    return x * w;
#else
    return w * x;
#endif
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
