// SPDX-License-Identifier: MIT
//
// Compiled by g++ with -fsanitize=undefined, to which addresses of functions are no constants: an expression of
// gradients is made all the same, at compile time.

#include <simplx/simplx.hpp>

using namespace simplx;

/// |d(sum x^2)/dx|^2 = 4 sum x^2, whose gradient is 8 x.
inline constexpr auto f = [] {
  auto x = variable("x", fixed_shape(3, 1));
  return sum(square(grad(sum(square(x)), x)));
};

int main() {
  Function<f> function;
  function.set<"x">(Eigen::Vector3d(1, 2, 3));
  const double value = function.value_and_grad();
  return value == 4 * (1 + 4 + 9) && function.gradient<"x">()[2] == 8 * 3 ? 0 : 1;
}
