// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: A name is set, bound or read that the function does not use.
// expect: error: .*simplx: the function uses no input, parameter or constant of that name
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
  f.set<"x">(A);
#else
  f.set<"X">(A);
#endif
}
