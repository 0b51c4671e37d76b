// SPDX-License-Identifier: MIT
//
// Lesson 4: softmax and cross-entropy.
//
//     p = softmax(z) = exp(z) / sum exp(z),     loss = -log p[label] = log sum exp(z) - z[label]
//     dloss/dz = p - onehot(label)
//
// A classifier gives each class a score z; softmax makes probabilities of the scores, and the loss is the surprise at
// the right answer, in nats. Their gradient is the simplest there is: what was predicted, minus what was true.
//
//     g++ -std=c++20 -O2 -I include -I /usr/include/eigen3 examples/04_softmax.cpp -pthread && ./a.out

#include <simplx/simplx.hpp>

#include <cstdio>

using namespace simplx;

/// Of one row of scores: the two written out, and as the library's one op.
inline constexpr auto written_out = [] {
  auto z = variable("z", fixed_shape(1, 3));
  return -sum(multiply(input("onehot", fixed_shape(1, 3)), log(softmax(z))));
};
inline constexpr auto in_one_op = [] {
  return sum(cross_entropy(variable("z", rows_of(Axis::batch, 3)), indices("label", Axis::batch)));
};
inline constexpr auto probabilities = [] { return softmax(input("z", fixed_shape(1, 3))); };

/// A linear classifier of points in the plane.
inline constexpr auto classifier = [] {
  auto x = input("x", rows_of(Axis::batch, 2));
  auto z = x * weight("W", 2, 3, zeros) + vector("b", 3, zeros);
  return mean(cross_entropy(z, indices("label", Axis::batch)));
};

void print(const char* what, double loss, const auto& row) {
  std::printf("%-14s loss %8.4f   dloss/dz %8.4f %8.4f %8.4f\n", what, loss, row(0), row(1), row(2));
}

int main() {
  std::printf("written out: %s\n", describe<written_out>().c_str());
  std::printf("in one op: %s\n", describe<in_one_op>().c_str());

  const Eigen::RowVector3d z(2, 1, -1), onehot(0, 1, 0);
  const std::vector<std::int32_t> label{1};
  Function<probabilities> p;
  p.set<"z">(z).forward();
  Function<written_out> first;
  Function<in_one_op> second;
  std::printf("z = 2 1 -1, label 1: p = %.4f %.4f %.4f\n", p.output()(0), p.output()(1), p.output()(2));
  const double first_loss = first.set<"z">(z).set<"onehot">(onehot).value_and_grad();
  print("written out", first_loss, first.gradient<"z">());
  const double second_loss = second.set<"z">(z).set<"label">(label).value_and_grad();
  print("in one op", second_loss, second.gradient<"z">());
  print("by hand", -std::log(p.output()(1)), p.output() - onehot);

  // Scores far apart: p[1] is 0 as a double, and 0 times its logarithm is not a number. The one op never forms p[1].
  const Eigen::RowVector3d far(1000, 0, 0);
  std::printf("\nz = 1000 0 0, label 1\n");
  const double far_first = first.set<"z">(far).value(), far_second = second.set<"z">(far).value_and_grad();
  std::printf("%-14s loss is %s number\n", "written out", std::isnan(far_first) ? "not a" : "a");
  print("in one op", far_second, second.gradient<"z">());

  // Three clouds of 100 points.
  Eigen::Matrix<double, Eigen::Dynamic, 2, Eigen::RowMajor> x(300, 2);
  std::vector<std::int32_t> labels(300);
  const double centres[3][2] = {{0, 1.5}, {-1.3, -0.75}, {1.3, -0.75}};
  for (int i = 0; i < 300; ++i) {
    labels[i] = i % 3;
    for (int j = 0; j < 2; ++j) x(i, j) = centres[i % 3][j] + 0.7 * normal(key_of(1, "cloud"), 2ull * i + j);
  }
  std::printf("\nclassifier: %s\n", describe<classifier>().c_str());
  Function<classifier> f;
  f.bind<"x">(x).bind<"label">(labels);
  for (int step = 0; step <= 300; ++step) {
    const double loss = f.value_and_grad();
    if (step % 100 == 0) std::printf("step %3d  loss %.4f nats\n", step, loss);
    for (std::size_t i = 0; i < f.parameters().size(); ++i) f.parameters()[i] -= f.gradients()[i];
  }
  std::printf("a guess among three costs log 3 = %.4f nats\n", std::log(3.0));
}
