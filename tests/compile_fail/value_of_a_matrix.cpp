// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: The value of a function is asked for whose result is no number.
// expect: error: .*simplx: value\(\) is for functions whose first result is one number
#include <simplx/differentiate/function.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/reduce.hpp>
#include <simplx/ops/functions.hpp>

using namespace simplx;

inline constexpr auto model = [] {
  Expr x = input("x", rows_of(Axis::batch, 8)), w = variable("w", fixed_shape(8, 1));
#ifdef FIXED
  return mean(x * w);
#else
  return x * w;
#endif
};
double run(Function<model>& f) { return f.value_and_grad(); }
