// SPDX-License-Identifier: MIT
//
// Microseconds for the value and the gradient of the functions in examples/functions, and of Eigen code by hand.
//
//     gradient [--only WORD] [--rounds 41] [--json]     WORD: part of a function's name
//
// Method: double, one core, both in one process on the same numbers; a time is processor time, the median of the
// rounds, in each of which both run for about 5 ms, one after the other. The Eigen side is what a careful user
// writes: array expressions, the analytic gradient, each exponential once, temporaries allocated before the clock
// starts. "difference" is that of the gradients, relative to their norm. "limit_us" is what the machine needs at the
// least, as measured in the same run: to do the products at the peak of multiply-adds and then each exponential or
// logarithm at the speed of simplx::exp in the cache, or to read the operands and write the gradients once at the
// bandwidth of memory of that size, whichever takes longer; "of_limit" is its share of simplx's time.

#include "measure.hpp"

#include "../examples/functions/by_hand.hpp"
#include "../examples/functions/gaussian_mixture.hpp"
#include "../examples/functions/least_squares.hpp"
#include "../examples/functions/log_sum_exp.hpp"
#include "../examples/functions/logistic_regression.hpp"
#include "../examples/functions/lstm_cell.hpp"
#include "../examples/functions/perceptron.hpp"
#include "../examples/functions/stochastic_volatility.hpp"

using namespace simplx;

namespace {

inline constexpr Index features = 32, components = 8, units = 32;
inline constexpr functions::LeastSquares least_squares{features};
inline constexpr functions::LogisticRegression logistic_regression{features};
inline constexpr functions::GaussianMixture gaussian_mixture{components};
inline constexpr functions::LstmCell lstm_cell{units, units};
inline constexpr functions::Perceptron perceptron{units, 2 * units, units / 2};
inline constexpr functions::LogSumExp log_sum_exp_of_all{};
inline constexpr functions::StochasticVolatility stochastic_volatility{};

using by_hand::Matrix;
using by_hand::Vector;

/// What one call does at the least: FLOPs of products, exponentials and logarithms, bytes in and out.
struct Work {
  double flops, exponentials, bytes;
};

/// Exponentials of doubles that a core does in a microsecond, in its first-level cache.
double exponentials_per_us() {
  constexpr Index n = 1024;
  cpu::Buffer<double> x(n), y(n);
  const auto pass = [&] {
    for (Index i = 0; i < n; i += lanes<double>) {
      store(y.data() + i, simplx::exp(load<Vec<double>>(x.data() + i)));
    }
  };
  return static_cast<double>(n) / bench::take_turns({5, 2000}, pass)[0];
}

struct Run {
  bench::Rows rows;
  std::string only;
  bench::Turns turns;
};

/// Runs both in turns; `difference` compares what they left.
template <class Ours, class Theirs, class Difference>
void compare(Run& run, const char* name, Index rows, const Work& work, Ours ours, Theirs theirs,
             Difference difference) {
  const double flops_per_us = cpu::measured_peak_gflops() / 2 * 1e3;  // a vector has half as many doubles
  const double limit = std::max(work.flops / flops_per_us + work.exponentials / exponentials_per_us(),
                                work.bytes / bench::measured_bandwidth(work.bytes) * 1e-3);
  const auto times = bench::take_turns(run.turns, ours, theirs);
  run.rows.add({{"function", name}, {"rows", static_cast<double>(rows)}, {"simplx_us", times[0]},
                {"eigen_us", times[1]}, {"ratio", times[1] / times[0]}, {"limit_us", limit},
                {"of_limit", limit / times[0]}, {"difference", difference()}});
}

double relative(const Matrix& a, const Matrix& b) { return (a - b).norm() / b.norm(); }

void run_least_squares(Run& run, Index rows) {
  const double n = static_cast<double>(rows);
  const Matrix A = Matrix::Random(rows, features);
  const Vector y = Vector::Random(rows), w = Vector::Random(features);
  Function<least_squares> f;
  f.bind<"A">(A).bind<"y">(y).set<"w">(w);
  by_hand::LeastSquares g;
  compare(run, "least squares", rows, {n * 4.0 * features, 0, n * 8.0 * (features + 1)}, [&] { f.value_and_grad(); },
          [&] { g(A, y, w); },
          [&] { return relative(f.gradient<"w">(), g.dw); });
}

void run_logistic_regression(Run& run, Index rows) {
  const double n = static_cast<double>(rows);
  const Matrix X = Matrix::Random(rows, features);
  const Vector y = (Vector::Random(rows).array() > 0).cast<double>(), w = Vector::Random(features);
  Function<logistic_regression> f;
  f.bind<"X">(X).bind<"y">(y).set<"w">(w).set<"b">(0.3);
  by_hand::LogisticRegression g;
  compare(run, "logistic regression", rows, {n * 4.0 * features, n * 2.0, n * 8.0 * (features + 1)},
          [&] { f.value_and_grad(); }, [&] { g(X, y, w, 0.3); },
          [&] { return relative(f.gradient<"w">(), g.dw); });
}

void run_log_sum_exp(Run& run, Index rows) {
  const double n = static_cast<double>(rows);
  const Vector x = 5 * Vector::Random(rows);
  Function<log_sum_exp_of_all> f;
  f.bind<"x">(x);
  by_hand::LogSumExp g;
  compare(run, "log sum exp", rows, {0, n, n * 16.0}, [&] { f.value_and_grad(); },
          [&] { g(x); },
          [&] { return relative(f.gradient<"x">(), g.dx); });
}

void run_gaussian_mixture(Run& run, Index rows) {
  const double n = static_cast<double>(rows);
  const Vector x = 5 * Vector::Random(rows);
  const Vector weights = Vector::Constant(components, 1.0 / components), means = 5 * Vector::Random(components);
  const Vector deviations = Vector::Constant(components, 1) + 0.5 * Vector::Random(components);
  Function<gaussian_mixture> f;
  f.bind<"x">(x).bind<"weights">(weights).bind<"means">(means).bind<"deviations">(deviations);
  by_hand::GaussianMixture g;
  compare(run, "Gaussian mixture", rows, {0, n * (components + 1.0), n * 8.0}, [&] { f.value_and_grad(); },
          [&] { g(x, weights, means, deviations); },
          [&] {
            return relative(f.gradient<"means">().transpose(), g.dmeans) +
                   relative(f.gradient<"deviations">().transpose(), g.ddeviations) +
                   relative(f.gradient<"weights">().transpose(), g.dweights);
          });
}

void run_lstm_cell(Run& run, Index rows) {
  const double n = static_cast<double>(rows);
  const Matrix x = Matrix::Random(rows, units), h = Matrix::Random(rows, units), c = Matrix::Random(rows, units);
  const Matrix W = 0.2 * Matrix::Random(units, 4 * units), U = 0.2 * Matrix::Random(units, 4 * units);
  const Vector b = Vector::Random(4 * units);
  Function<lstm_cell> f;
  f.bind<"x">(x).bind<"h">(h).bind<"c">(c).bind<"W">(W).bind<"U">(U).bind<"b">(b);
  by_hand::LstmCell g;
  const auto ours = [&] {
    f.forward();
    f.output_gradient<0>().setOnes();
    f.output_gradient<1>().setOnes();
    f.backward();
  };
  compare(run, "LSTM cell", rows, {n * 3.0 * 2 * (2 * units) * (4 * units), n * 5.0 * units, n * 10.0 * units * 8},
          ours, [&] { g(x, h, c, W, U, b); },
          [&] { return relative(f.gradient<"U">(), g.dU) + relative(f.gradient<"c">(), g.dc); });
}

void run_perceptron(Run& run, Index rows) {
  const double n = static_cast<double>(rows), weights = 2 * units * (units + units / 2);
  const Matrix x = Matrix::Random(rows, units), y = Matrix::Random(rows, units / 2);
  const Matrix W = 0.2 * Matrix::Random(units, 2 * units), V = 0.2 * Matrix::Random(2 * units, units / 2);
  const Vector b = Vector::Random(2 * units), c = Vector::Random(units / 2);
  Function<perceptron> f;
  f.bind<"x">(x).bind<"y">(y).bind<"W">(W).bind<"V">(V).bind<"b">(b).bind<"c">(c);
  by_hand::Perceptron g;
  const double products = n * 2 * (3 * weights - 2 * units * units);  // no gradient of x
  compare(run, "perceptron", rows, {products, n * 2 * units, n * 1.5 * units * 8}, [&] { f.value_and_grad(); },
          [&] { g(x, y, W, b, V, c); },
          [&] { return relative(f.gradient<"W">(), g.dW) + relative(f.gradient<"V">(), g.dV); });
}

void run_stochastic_volatility(Run& run, Index rows) {
  const double n = static_cast<double>(rows);
  const Vector y = Vector::Random(rows), h = Vector::Random(rows);
  Function<stochastic_volatility> f;
  f.bind<"y">(y).bind<"h">(h).set<"mu">(-0.5).set<"phi">(0.9).set<"sigma">(0.3);
  by_hand::StochasticVolatility g;
  compare(run, "stochastic volatility", rows, {0, n, n * 24.0}, [&] { f.value_and_grad(); },
          [&] { g(y, h, -0.5, 0.9, 0.3); },
          [&] { return relative(f.gradient<"h">(), g.dh); });
}

}  // namespace

int main(int count, char** arguments) {
  return bench::guarded([&] {
    const bench::Flags flags(count, arguments, {{"--only", ""}, {"--rounds", "41"}});
    Run all{bench::Rows(flags), flags.text("--only"), {static_cast<int>(flags.number("--rounds")), 5000}};
    const auto run = [&](std::string_view name, auto f, std::initializer_list<Index> sizes) {
      if (name.find(all.only) == name.npos) return;
      for (const Index rows : sizes) f(all, rows);
    };
    run("least squares", run_least_squares, {2000, 16000, 80000});
    run("logistic regression", run_logistic_regression, {1500, 12000, 70000});
    run("log sum exp", run_log_sum_exp, {12000, 100000, 800000});
    run("Gaussian mixture", run_gaussian_mixture, {700, 6000, 60000});
    run("LSTM cell", run_lstm_cell, {8, 80, 800});
    run("perceptron", run_perceptron, {16, 160, 1600});
    run("stochastic volatility", run_stochastic_volatility, {5000, 40000, 400000});
  });
}
