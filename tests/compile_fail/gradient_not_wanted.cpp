// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: The gradient of an input is read that is no variable.
// expect: error: .*simplx: the gradient of this input is not wanted: make it a variable
#include <simplx/differentiate/function.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/reduce.hpp>
#include <simplx/ops/functions.hpp>

using namespace simplx;

inline constexpr auto model = [] {
  Expr x = input("x", rows_of(Axis::batch, 8)), w = variable("w", fixed_shape(8, 1)), b = scalar("b", zeros);
  return mean(square(x * w + b));
};
void run(Function<model>& f, const Eigen::MatrixXd& A) {
#ifdef FIXED
  f.gradient<"w">();
#else
  f.gradient<"x">();
#endif
}
