// SPDX-License-Identifier: MIT
//
// Microseconds for the value and the gradient of the functions in examples/functions, and of Eigen code by hand.
//
//     functions
//
// Method: double, one core, both in one process on the same numbers; a time is processor time, the median of 41
// rounds, in each of which both run for about 5 ms, one after the other. The Eigen side is what a careful user
// writes: array expressions, the analytic gradient, each exponential once, temporaries allocated before the clock
// starts. "difference" is that of the gradients, relative to their norm.

#include "../examples/functions/by_hand.hpp"
#include "../examples/functions/gaussian_mixture.hpp"
#include "../examples/functions/least_squares.hpp"
#include "../examples/functions/log_sum_exp.hpp"
#include "../examples/functions/logistic_regression.hpp"
#include "../examples/functions/lstm_cell.hpp"
#include "../examples/functions/stochastic_volatility.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string_view>
#include <vector>

using namespace simplx;

namespace {

inline constexpr Index features = 32, components = 8, units = 32;
inline constexpr functions::LeastSquares least_squares{features};
inline constexpr functions::LogisticRegression logistic_regression{features};
inline constexpr functions::GaussianMixture gaussian_mixture{components};
inline constexpr functions::LstmCell lstm_cell{units, units};
inline constexpr functions::LogSumExp log_sum_exp_of_all{};
inline constexpr functions::StochasticVolatility stochastic_volatility{};

using by_hand::Matrix;
using by_hand::Vector;

template <class F>
double microseconds(F& f, int calls) {
  const std::clock_t begin = std::clock();
  for (int i = 0; i < calls; ++i) f();
  return 1e6 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / calls;
}

double median(std::vector<double> times) {
  std::ranges::nth_element(times, times.begin() + times.size() / 2);
  return times[times.size() / 2];
}

/// Runs both in turns; `difference` compares what they left.
template <class Ours, class Theirs, class Difference>
void compare(const char* name, Index rows, Ours ours, Theirs theirs, Difference difference) {
  constexpr int rounds = 41;
  const double once = std::max(microseconds(ours, 3), microseconds(theirs, 3));
  const int calls = std::max(1, static_cast<int>(5000 / once));
  std::vector<double> mine, yours;
  for (int round = 0; round < rounds; ++round) {
    mine.push_back(microseconds(ours, calls));
    yours.push_back(microseconds(theirs, calls));
  }
  const double a = median(mine), b = median(yours);
  std::printf("%-22s %8td %9.1f %9.1f %6.2f  %.1e\n", name, rows, a, b, a / b, difference());
  std::fflush(stdout);
}

double relative(const Matrix& a, const Matrix& b) { return (a - b).norm() / b.norm(); }

void run_least_squares(Index n) {
  const Matrix A = Matrix::Random(n, features);
  const Vector y = Vector::Random(n), w = Vector::Random(features);
  Function<least_squares> f;
  f.bind<"A">(A).bind<"y">(y).set<"w">(w);
  by_hand::LeastSquares g;
  compare("least squares", n, [&] { f.value_and_grad(); }, [&] { g(A, y, w); },
          [&] { return relative(f.gradient<"w">(), g.dw); });
}

void run_logistic_regression(Index n) {
  const Matrix X = Matrix::Random(n, features);
  const Vector y = (Vector::Random(n).array() > 0).cast<double>(), w = Vector::Random(features);
  Function<logistic_regression> f;
  f.bind<"X">(X).bind<"y">(y).set<"w">(w).set<"b">(0.3);
  by_hand::LogisticRegression g;
  compare("logistic regression", n, [&] { f.value_and_grad(); }, [&] { g(X, y, w, 0.3); },
          [&] { return relative(f.gradient<"w">(), g.dw); });
}

void run_log_sum_exp(Index n) {
  const Vector x = 5 * Vector::Random(n);
  Function<log_sum_exp_of_all> f;
  f.bind<"x">(x);
  by_hand::LogSumExp g;
  compare("log sum exp", n, [&] { f.value_and_grad(); }, [&] { g(x); },
          [&] { return relative(f.gradient<"x">(), g.dx); });
}

void run_gaussian_mixture(Index n) {
  const Vector x = 5 * Vector::Random(n);
  const Vector weights = Vector::Constant(components, 1.0 / components), means = 5 * Vector::Random(components);
  const Vector deviations = Vector::Constant(components, 1) + 0.5 * Vector::Random(components);
  Function<gaussian_mixture> f;
  f.bind<"x">(x).bind<"weights">(weights).bind<"means">(means).bind<"deviations">(deviations);
  by_hand::GaussianMixture g;
  compare("Gaussian mixture", n, [&] { f.value_and_grad(); }, [&] { g(x, weights, means, deviations); },
          [&] {
            return relative(f.gradient<"means">().transpose(), g.dmeans) +
                   relative(f.gradient<"deviations">().transpose(), g.ddeviations) +
                   relative(f.gradient<"weights">().transpose(), g.dweights);
          });
}

void run_lstm_cell(Index n) {
  const Matrix x = Matrix::Random(n, units), h = Matrix::Random(n, units), c = Matrix::Random(n, units);
  const Matrix W = 0.2 * Matrix::Random(units, 4 * units), U = 0.2 * Matrix::Random(units, 4 * units);
  const Vector b = Vector::Random(4 * units);
  Function<lstm_cell> f;
  f.bind<"x">(x).bind<"h">(h).bind<"c">(c).bind<"W">(W).bind<"U">(U).bind<"b">(b);
  by_hand::LstmCell g;
  const auto ours = [&] {
    f.forward();
    f.seed<0>().setOnes();
    f.seed<1>().setOnes();
    f.backward();
  };
  compare("LSTM cell", n, ours, [&] { g(x, h, c, W, U, b); },
          [&] { return relative(f.gradient<"U">(), g.dU) + relative(f.gradient<"c">(), g.dc); });
}

void run_stochastic_volatility(Index n) {
  const Vector y = Vector::Random(n), h = Vector::Random(n);
  Function<stochastic_volatility> f;
  f.bind<"y">(y).bind<"h">(h).set<"mu">(-0.5).set<"phi">(0.9).set<"sigma">(0.3);
  by_hand::StochasticVolatility g;
  compare("stochastic volatility", n, [&] { f.value_and_grad(); }, [&] { g(y, h, -0.5, 0.9, 0.3); },
          [&] { return relative(f.gradient<"h">(), g.dh); });
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view only = count > 1 ? arguments[1] : "";
  const auto run = [&](std::string_view name, auto f, std::initializer_list<Index> sizes) {
    if (name.find(only) == name.npos) return;
    for (const Index n : sizes) f(n);
  };
  std::printf("%-22s %8s %9s %9s %6s  %s\n", "", "rows", "simplx us", "Eigen us", "ratio", "difference");
  run("least", run_least_squares, {2000, 16000, 80000});
  run("logistic", run_logistic_regression, {1500, 12000, 70000});
  run("exp", run_log_sum_exp, {12000, 100000, 800000});
  run("mixture", run_gaussian_mixture, {700, 6000, 60000});
  run("lstm", run_lstm_cell, {8, 80, 800});
  run("volatility", run_stochastic_volatility, {5000, 40000, 400000});
}
