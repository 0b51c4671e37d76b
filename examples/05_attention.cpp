// SPDX-License-Identifier: MIT
//
// Lesson 5: attention.
//
//     S = Q K^T / sqrt(d_k) + mask,     A = softmax(S), row by row,     O = A V
//
// Each token asks (Q), is asked (K) and has something to say (V): row i of A says how much token i listens to each
// token, and its result is the weighted mean of what they say. The mask is minus infinity where j > i: nobody hears
// the future. Written out for four tokens A is a 4 x 4 matrix; the library's op does the same for any number of tokens
// without storing A, which for long texts would be most of the memory.
//
//     g++ -std=c++20 -O2 -I include -I /usr/include/eigen3 examples/05_attention.cpp -pthread && ./a.out

#include <simplx/simplx.hpp>

#include <cstdio>
#include <limits>

using namespace simplx;

inline constexpr double root = 1.4142135623730951;  // of d_k = 2

inline constexpr auto written_out = [] {
  auto Q = variable("Q", fixed_shape(4, 2)), K = variable("K", fixed_shape(4, 2)), V = variable("V", fixed_shape(4, 2));
  auto A = softmax(Q * transpose(K) / root + input("mask", fixed_shape(4, 4)));
  return A * V;
};
inline constexpr auto in_one_op = [] {
  auto Q = variable("Q", rows_of(Axis::tokens, 2)), K = variable("K", rows_of(Axis::tokens, 2));
  return softmax_attention(Q, K, variable("V", rows_of(Axis::tokens, 2)), {.count = 1});
};

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Matrix random_matrix(const char* name) {
  return Matrix::NullaryExpr(4, 2, [&](Index i, Index j) { return normal(key_of(1, name), 2ull * i + j); });
}

void print(const char* name, const Matrix& matrix) {
  std::printf("%s\n", name);
  for (const auto& row : matrix.rowwise()) {
    for (const double x : row) std::printf("%9.4f", x);
    std::printf("\n");
  }
}

/// Leaves the gradients of Q, K and V in f, for the gradient dO of its result.
template <class F>
void pull_back(F& f, const Matrix& dO) {
  f.forward();
  f.output_gradient() = dO;
  f.backward();
}

int main() {
  std::printf("written out: %s\n", describe<written_out>().c_str());
  std::printf("in one op: %s\n", describe<in_one_op>().c_str());

  const Matrix Q = random_matrix("Q"), K = random_matrix("K"), V = random_matrix("V"), dO = random_matrix("dO");
  Matrix mask = Matrix::Zero(4, 4);
  for (int i = 0; i < 4; ++i) mask.row(i).tail(3 - i).setConstant(-std::numeric_limits<double>::infinity());

  Function<written_out> first;
  first.set<"Q">(Q).set<"K">(K).set<"V">(V).set<"mask">(mask);
  pull_back(first, dO);
  Function<in_one_op> second;
  second.set<"Q">(Q).set<"K">(K).set<"V">(V);
  pull_back(second, dO);

  // The same by hand.
  Matrix A = (Q * K.transpose() / root + mask).array().exp();
  A.array().colwise() /= A.rowwise().sum().array().eval();
  const Matrix dV = A.transpose() * dO;
  const Matrix dA = dO * V.transpose();
  const Eigen::VectorXd delta = A.cwiseProduct(dA).rowwise().sum();
  const Matrix dS = A.array() * (dA.colwise() - delta).array();
  const Matrix dQ = dS * K / root, dK = dS.transpose() * Q / root;

  print("A: each row sums to one, the first token hears itself alone", A);
  print("O", first.output());
  print("dQ by hand", dQ);
  const auto distance = [](const Matrix& a, const Matrix& b) { return (a - b).cwiseAbs().maxCoeff(); };
  const auto compare = [&](const char* name, auto& f) {
    const double furthest =
        std::max({distance(f.output(), A * V), distance(f.template gradient<"Q">(), dQ),
                  distance(f.template gradient<"K">(), dK), distance(f.template gradient<"V">(), dV)});
    std::printf("%s: O, dQ, dK and dV %s those by hand\n", name, furthest < 1e-12 ? "are" : "are not");
  };
  compare("written out", first);
  compare("in one op", second);

  // Causality: let only the second token's result matter. Nothing later has a gradient.
  Matrix second_row = Matrix::Zero(4, 2);
  second_row.row(1) = dO.row(1);
  pull_back(second, second_row);
  print("dV if only the second token's result matters", second.gradient<"V">());
}
