// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: One gradient for each row is asked for of a result that has been averaged over the rows.
// expect: error: .*simplx: row_gradients is for a first result of shape \(rows, 1\), rows that are neither tokens nor sequences of them, and a static value
#include <simplx/differentiate/function.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/reduce.hpp>
#include <simplx/ops/functions.hpp>

using namespace simplx;

inline constexpr auto model = [] {
  Expr x = input("x", rows_of(Axis::batch, 8)), w = variable("w", fixed_shape(8, 1));
#ifdef FIXED
  return x * w;
#else
  return mean(x * w);
#endif
};
void run(Function<model>& f) { f.row_gradients<"w">(); }
