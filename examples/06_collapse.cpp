// SPDX-License-Identifier: MIT
//
// Lesson 6: why a stack of attention without skips collapses, and how shaped attention heals it.
//
//     X_{l+1} = M(X_l) X_l,     M = A                                 softmax attention
//                               M = alpha I + beta A - gamma C        shaped attention, Eq. (5)
//
// Every row of A is a weighted mean. The mean of means of means ... is one number: after some layers all tokens are
// the same (rank collapse), and no gradient tells them apart. A skip keeps X; shaped attention keeps it too, but
// inside of the matrix: C is what A is at zero queries, so that at first beta A - gamma C = 0 and M = I. [He & Hofmann
// 2024, Sec. 4.1]
//
//     g++ -std=c++20 -O2 -I include -I /usr/include/eigen3 examples/06_collapse.cpp -pthread && ./a.out

#include <simplx/simplx.hpp>

#include <cstdio>

using namespace simplx;

constexpr Index T = 32, d = 64;  // tokens, width
constexpr int L = 24;            // layers

/// A layer with values and projections left out: V = X, P = I.
struct Layer {
  AttentionMatrix matrix;
  Init queries;
  bool skip = false;

  constexpr Expr operator()(Expr x) const {
    x = probe("x", x);  // its value and its gradient stay readable
    auto n = skip ? named("norm", RmsNorm{})(x) : x;
    auto query = n * weight("query", d, d, queries), key = n * weight("key", d, d, normal_by_rows);
    auto mixed = mix(matrix, query, key, n, Heads{.count = 4});
    return skip ? x + mixed : mixed;
  }
};

struct Stack {
  Layer layer;
  constexpr Expr operator()() const { return stack("layers", L, layer, variable("x", rows_of(Axis::tokens, d))); }
};

inline constexpr Stack softmax_stack{{AttentionMatrix::softmax, normal_by_rows}};
inline constexpr Stack skip_stack{{AttentionMatrix::softmax, normal_by_rows, /*skip*/ true}};
inline constexpr Stack shaped_stack{{AttentionMatrix::shaped, zeros}};
inline constexpr Stack moved_stack{{AttentionMatrix::shaped, normal(0.25 / 8)}};  // queries as after some training

/// What a layer gets: mean cosine between different tokens, length of tokens and of their gradients (root mean square).
struct Signal {
  double cosine, length, gradient;
};

double root_mean_square(const Eigen::MatrixXd& x) { return std::sqrt(x.squaredNorm() / static_cast<double>(x.size())); }

Signal measure(const Eigen::MatrixXd& x, const Eigen::MatrixXd& gradient) {
  const Eigen::MatrixXd unit = x.rowwise().normalized(), cosines = unit * unit.transpose();
  const double pairs = static_cast<double>(x.rows() * (x.rows() - 1));
  const double mean_cosine = (cosines.sum() - cosines.trace()) / pairs;
  return {mean_cosine, root_mean_square(x), root_mean_square(gradient.bottomRows(x.rows() - 1))};
}

template <auto const& model>
std::vector<Signal> propagate() {
  Evaluation<model> run(tokens{T}, /*seed*/ 1);
  for (std::size_t i = 0; i < run.input("x").size(); ++i) run.input("x")[i] = normal(key_of(1, "x"), i);
  run.forward();
  for (std::size_t i = 0; i < run.output_gradient().size(); ++i) run.output_gradient()[i] = normal(key_of(1, "dx"), i);  // dloss/dX_24
  run.backward();
  std::vector<Signal> signals;
  using Map = Eigen::Map<const Eigen::Matrix<double, T, d, Eigen::RowMajor>>;
  run.each_probe([&](const std::string&, const Shape&, const double* value, const double* gradient) {
    signals.push_back(measure(Map(value), Map(gradient)));
  });
  return signals;
}

int main() {
  std::printf("shaped: %s\n", describe<shaped_stack>().c_str());

  const std::vector<Signal> columns[] = {propagate<softmax_stack>(), propagate<skip_stack>(), propagate<shaped_stack>(),
                                         propagate<moved_stack>()};
  const auto table = [&](const char* title, double Signal::*what) {
    std::printf("%s\nlayer          softmax    skip and norm  shaped, W_Q = 0    shaped, moved\n", title);
    for (const int layer : {0, 1, 2, 4, 8, 16, 23}) {
      std::printf("%5d", layer);
      for (const auto& column : columns) std::printf(" %16.3g", column[layer].*what);
      std::printf("\n");
    }
  };
  table("mean cosine between tokens: 0 unrelated, 1 all the same", &Signal::cosine);
  table("\nsize of a token", &Signal::length);
  table("\nsize of the gradient of all tokens but the first", &Signal::gradient);
}
