// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: A row does not hold the matrix that it is said to hold.
// expect: error: .*simplx: batched_matmul\(a, b, rows, inner, cols\)
// expect: 9L? == 6
#include <simplx/ops/batched_matmul.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr a = input("a", rows_of(Axis::batch, 9)), b = input("b", rows_of(Axis::batch, 12));
#ifdef FIXED
    return batched_matmul(a, b, 3, 3, 4);
#else
    return batched_matmul(a, b, 3, 2, 4);
#endif
  }
};
inline constexpr Net model{};
static_assert(GraphOf<model>::count > 0);
