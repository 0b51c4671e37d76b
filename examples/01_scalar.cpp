// SPDX-License-Identifier: MIT
//
// Lesson 1: a scalar function and its reverse schedule.
//
//     f(x, y) = x y + sin x,     df/dx = y + cos x,     df/dy = x
//
// Every function is made of small steps. The chain rule goes through them backwards: each step hands the gradient of
// its result to its operands, and what is used twice (here x) sums what it is handed. simplx does this when the
// program is compiled; describe<f>() prints what came out, as formulas.
//
//     g++ -std=c++20 -O2 -I include -I /usr/include/eigen3 examples/01_scalar.cpp -pthread && ./a.out

#include <simplx/simplx.hpp>

#include <cstdio>

using namespace simplx;

inline constexpr Shape number = fixed_shape(1, 1);

/// The function: an ordinary constexpr lambda over Expr. A `variable` is an input whose gradient is wanted.
inline constexpr auto f = [] {
  auto x = variable("x", number), y = variable("y", number);
  return x * y + sin(x);
};

/// df/dx, as a function of its own: the same rules, run over expressions.
inline constexpr auto slope = [] {
  auto x = variable("x", number), y = variable("y", number);
  return grad(x * y + sin(x), x);
};

int main() {
  std::printf("f has %s\n", describe<f>().c_str());

  const double x = 2, y = 3;
  Function<f> function;
  const double value = function.set<"x">(x).set<"y">(y).value_and_grad();
  const double dx = function.gradient<"x">()(0), dy = function.gradient<"y">()(0);
  std::printf("at x = %g, y = %g: f = %.6f\n", x, y, value);
  std::printf("df/dx  compiler %.6f   by hand %.6f\n", dx, y + std::cos(x));
  std::printf("df/dy  compiler %.6f   by hand %.6f\n", dy, x);

  // No derivation at all: a central difference, whose error falls with h^2.
  for (const double h : {1e-1, 1e-2, 1e-3}) {
    const double above = function.set<"x">(x + h).value(), below = function.set<"x">(x - h).value();
    std::printf("df/dx  (f(x + h) - f(x - h)) / 2h at h = %g: %.6f\n", h, (above - below) / (2 * h));
  }

  std::printf("\nits slope has %s\n", describe<slope>().c_str());
  Function<slope> derivative;
  derivative.set<"x">(x).set<"y">(y).value_and_grad();
  std::printf("d2f/dx2  compiler %.6f   by hand %.6f\n", derivative.gradient<"x">()(0), -std::sin(x));
}
