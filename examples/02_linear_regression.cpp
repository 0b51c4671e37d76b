// SPDX-License-Identifier: MIT
//
// Lesson 2: linear regression by gradient descent.
//
//     loss(w, b) = mean over samples of (A w + b - y)^2
//
// n samples of 3 features are the rows of A; w and b are found by walking downhill: w <- w - rate * dloss/dw. The
// number of samples is known at run time only, the number of features at compile time: shapes are checked before
// anything runs. The answer is compared with that of the normal equations, which need no descent.
//
//     g++ -std=c++20 -O2 -I include -I /usr/include/eigen3 examples/02_linear_regression.cpp -pthread && ./a.out

#include <simplx/simplx.hpp>

#include <Eigen/Cholesky>

#include <cstdio>

using namespace simplx;

inline constexpr auto loss = [] {
  auto A = input("A", rows_of(Axis::batch, 3)), y = input("y", rows_of(Axis::batch, 1));
  auto w = variable("w", fixed_shape(3, 1)), b = variable("b", fixed_shape(1, 1));
  return mean(square(A * w + b - y));
};

int main() {
  std::printf("%s\n", describe<loss>().c_str());

  // 200 samples of y = 1 a - 2 b + 3 c + 0.5, and a little noise.
  Eigen::Matrix<double, Eigen::Dynamic, 3, Eigen::RowMajor> A(200, 3);
  Eigen::VectorXd y(200);
  const std::uint64_t key = key_of(1, "samples");
  for (int i = 0; i < 200; ++i) {
    for (int j = 0; j < 3; ++j) A(i, j) = normal(key, static_cast<std::uint64_t>(4 * i + j));
    y[i] = A.row(i).dot(Eigen::Vector3d(1, -2, 3)) + 0.5 + 0.1 * normal(key, static_cast<std::uint64_t>(4 * i + 3));
  }

  Eigen::Vector3d w = Eigen::Vector3d::Zero();
  double b = 0;
  Function<loss> f;
  f.bind<"A">(A).bind<"y">(y);  // read where they are
  f.set<"w">(w).set<"b">(b).value_and_grad();
  const Eigen::VectorXd residual = (A * w).array() + b - y.array();
  const Eigen::Vector3d by_hand = 2.0 / 200 * A.transpose() * residual;
  const auto compiled = f.gradient<"w">();
  std::printf("dloss/dw  compiler %8.4f %8.4f %8.4f\n", compiled(0), compiled(1), compiled(2));
  std::printf("          by hand  %8.4f %8.4f %8.4f\n\n", by_hand(0), by_hand(1), by_hand(2));

  for (int step = 0; step <= 60; ++step) {
    const double value = f.set<"w">(w).set<"b">(b).value_and_grad();
    if (step % 15 == 0) {
      std::printf("step %2d  loss %.5f  w = %.3f %.3f %.3f  b = %.3f\n", step, value, w[0], w[1], w[2], b);
    }
    w -= 0.2 * f.gradient<"w">();
    b -= 0.2 * f.gradient<"b">()(0);
  }

  Eigen::MatrixXd with_ones(200, 4);
  with_ones << A, Eigen::VectorXd::Ones(200);
  const Eigen::Vector4d exact = (with_ones.transpose() * with_ones).ldlt().solve(with_ones.transpose() * y);
  std::printf("normal equations      w = %.3f %.3f %.3f  b = %.3f\n", exact[0], exact[1], exact[2], exact[3]);
}
