// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: Gradients of each row are asked of rows that read each other.
// expect: error: .*simplx: row_gradients evaluates one row after the other, and rows of this function read others
#include <simplx/differentiate/function.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/reduce.hpp>

using namespace simplx;

struct Net {
  constexpr Expr operator()() const {
    Expr y = input("x", rows_of(Axis::batch, 8)) * weight("w", 8, 1);
#ifdef FIXED
    return square(y);
#else
    return square(y - mean(y, Over::rows));
#endif
  }
};
inline constexpr Net model{};
void run(Function<model>& f) { f.row_gradients<"w">(); }
