// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: A variable is given by set or bind; only what the function makes itself is changed in place.
// expect: error: .*simplx: this name is no parameter but an input or a constant, which set or bind gives
#include <simplx/differentiate/function.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/reduce.hpp>
#include <simplx/ops/functions.hpp>

using namespace simplx;

inline constexpr auto model = [] {
  Expr x = input("x", rows_of(Axis::batch, 8)), w = variable("w", fixed_shape(8, 1)), b = scalar("b", zeros);
  return mean(square(x * w + b));
};
void run(Function<model>& f) {
#ifdef FIXED
  f.parameter<"b">().setZero();
#else
  f.parameter<"w">().setZero();
#endif
}
