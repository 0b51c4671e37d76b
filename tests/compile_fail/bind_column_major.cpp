// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: A column-major matrix, Eigen's default, is bound in place.
// expect: error: .*simplx: bind reads row-major memory of the function's scalar \(std::int32_t for indices\) in place: use a RowMajor matrix
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
  f.bind<"x">(A);
#endif
}
