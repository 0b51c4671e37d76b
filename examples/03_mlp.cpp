// SPDX-License-Identifier: MIT
//
// Lesson 3: a multi-layer perceptron.
//
//     h = tanh(x W1 + b1),     prediction = h W2 + b2,     loss = mean (prediction - y)^2
//
// A straight line cannot follow a sine; sixteen bent lines can. The network makes its own parameters (weight, vector,
// scalar), which gives them names, shapes and initial values. The bend, tanh, is computed at the end of the first
// matrix product, before anything is stored.
//
//     g++ -std=c++20 -O2 -I include -I /usr/include/eigen3 examples/03_mlp.cpp -pthread && ./a.out

#include <simplx/simplx.hpp>

#include <cstdio>

using namespace simplx;

struct Network {
  Index hidden;

  constexpr Expr operator()(Expr x) const {
    auto h = tanh(x * weight("W1", width(x), hidden, normal(1)) + vector("b1", hidden, normal(1)));  // (n, hidden)
    return h * weight("W2", hidden, 1, normal_by_rows) + scalar("b2", zeros);                        // (n, 1)
  }
};

inline constexpr Network network{.hidden = 16};
inline constexpr auto loss = [] {
  auto x = input("x", rows_of(Axis::batch, 1)), y = input("y", rows_of(Axis::batch, 1));
  return mean(square(network(x) - y));
};
inline constexpr auto prediction = [] { return network(input("x", rows_of(Axis::batch, 1))); };

static_assert(parameters<loss> == 16 + 16 + 16 + 1);

int main() {
  std::printf("%s\n", describe<loss>().c_str());

  Eigen::VectorXd x = Eigen::VectorXd::LinSpaced(64, -3, 3), y = x.array().sin();
  Function<loss> f(/*seed*/ 1);
  f.bind<"x">(x).bind<"y">(y);

  // The gradient of W2[0] by hand: the mean of 2 (prediction - y) times the first unit, tanh(x W1[0] + b1[0]).
  f.value_and_grad();
  Function<prediction> g(/*seed*/ 1);  // the same seed and the same names, hence the same parameters
  g.bind<"x">(x).forward();
  const double slope = f.parameter<"W1">()(0), shift = f.parameter<"b1">()(0);
  const Eigen::ArrayXd unit = (slope * x.array() + shift).tanh(), error = g.output().array() - y.array();
  std::printf("W1[0] = %.4f   b1[0] = %.4f   W2[0] = %.4f\n", slope, shift, f.parameter<"W2">()(0));
  std::printf("dloss/dW2[0]  compiler %.6f   by hand %.6f\n\n", f.gradient<"W2">()(0), (2 * error * unit).mean());

  for (int step = 0; step <= 4000; ++step) {
    const double value = f.value_and_grad();
    if (step % 1000 == 0) std::printf("step %4d  loss %.5f\n", step, value);
    for (std::size_t i = 0; i < f.parameters().size(); ++i) f.parameters()[i] -= 0.1 * f.gradients()[i];
  }

  std::copy(f.parameters().begin(), f.parameters().end(), g.parameters().begin());
  g.forward();
  std::printf("\n     x   sin x   network\n");
  for (int i = 0; i < 64; i += 9) std::printf("%6.2f  %6.3f   %6.3f\n", x[i], y[i], g.output()(i));
}
