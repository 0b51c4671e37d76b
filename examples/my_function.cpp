// SPDX-License-Identifier: MIT
#include <simplx/simplx.hpp>

#include <cstdio>

using namespace simplx;

/// Ridge regression: mean (A w - y)^2 + penalty |w|^2. n samples of 3 features; n is known at run time.
inline constexpr auto ridge = [] {
  auto A = input("A", rows_of(Axis::batch, 3)), y = input("y", rows_of(Axis::batch, 1));
  auto w = variable("w", fixed_shape(3, 1));  // its gradient is wanted
  return mean(square(A * w - y)) + hyper("penalty", 0.01) * sum(square(w));
};

int main() {
  const Eigen::Matrix<double, Eigen::Dynamic, 3, Eigen::RowMajor> A = Eigen::MatrixXd::Random(100, 3);
  const Eigen::VectorXd y = A * Eigen::Vector3d(1, -2, 3);
  Eigen::VectorXd w = Eigen::VectorXd::Zero(3);

  Function<ridge> f;
  f.bind<"A">(A).bind<"y">(y);  // read where they are
  for (int step = 0; step < 200; ++step) {
    const double loss = f.set<"w">(w).value_and_grad();
    w -= 0.5 * f.gradient<"w">();
    if (step % 100 == 0) std::printf("step %3d  loss %.6f\n", step, loss);
  }
  std::printf("w = %.3f %.3f %.3f\n", w[0], w[1], w[2]);

  Directional<ridge> along;  // the same program on dual numbers
  along.set<"A">(A).set<"y">(y).set<"w">(w, Eigen::Vector3d::UnitX());
  along.hvp();
  std::printf("the first column of the Hessian: %.3f ...\n", along.hessian_product<"w">()(0));
}
