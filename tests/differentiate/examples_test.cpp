// SPDX-License-Identifier: MIT
//
// The functions of examples/functions against differences and against gradients by hand.

#include "../../examples/functions/by_hand.hpp"
#include "../../examples/functions/gaussian_mixture.hpp"
#include "../../examples/functions/least_squares.hpp"
#include "../../examples/functions/log_sum_exp.hpp"
#include "../../examples/functions/logistic_regression.hpp"
#include "../../examples/functions/lstm_cell.hpp"
#include "../../examples/functions/perceptron.hpp"
#include "../../examples/functions/stochastic_volatility.hpp"

#include <simplx/differentiate/gradcheck.hpp>

#include <doctest/doctest.h>

using namespace simplx;
using by_hand::Matrix;
using by_hand::Vector;

namespace {

inline constexpr functions::LeastSquares least_squares{5};
inline constexpr functions::LogisticRegression logistic_regression{5};
inline constexpr functions::GaussianMixture gaussian_mixture{3}, wider_mixture{8};
inline constexpr functions::LstmCell lstm_cell{3, 4};
inline constexpr functions::Perceptron perceptron{3, 5, 2};
inline constexpr functions::LogSumExp log_sum_exp_of_all{};
inline constexpr functions::StochasticVolatility stochastic_volatility{};

double distance(const Matrix& a, const Matrix& b) { return (a - b).norm() / b.norm(); }

void check(const GradientReport& report) {
  INFO("worst in ", report.worst_name);
  CHECK(report.entries > 0);
  CHECK(report.worst < 1e-7);
  CHECK(report.adjoint < 1e-7);
  CHECK(report.jvp < 1e-12);
  CHECK(report.hvp < 1e-6);
}

/// Differences where inputs must lie in their domain; `fill` sets them.
template <auto const& model, class Fill>
void check_within(Fill fill) {
  Evaluation<model> run(Rows{.tokens = 6, .batch = 6}, 0, {6});
  fill(run);
  GradientReport report = check_gradients(run, {.spread = 0.05, .step = 0.01});
  detail::check_directions<model>(run, {.step = 0.01, .rows = {.tokens = 6, .batch = 6}, .lengths = {6}}, report);
  check(report);
}

void set(std::span<double> to, const Vector& from) { std::ranges::copy(from, to.begin()); }

template <auto const& model>
void check_mixture(Index components) {
  const Vector x = 3 * Vector::Random(70), means = 3 * Vector::Random(components);
  const Vector weights = (Vector::Random(components).array() + 1.5).matrix();
  const Vector deviations = (Vector::Random(components).array() + 1.5).matrix();
  check_within<model>([&](auto& run) {
    set(run.input("x"), x.head(6));
    set(run.input("weights"), weights), set(run.input("means"), means), set(run.input("deviations"), deviations);
  });
  Function<model> f;
  f.template bind<"x">(x).template bind<"weights">(weights).template bind<"means">(means);
  f.template set<"deviations">(deviations);
  by_hand::GaussianMixture g;
  CHECK(f.value_and_grad() == doctest::Approx(g(x, weights, means, deviations)).epsilon(1e-12));
  CHECK(distance(f.template gradient<"weights">(), g.dweights.transpose()) < 1e-12);
  CHECK(distance(f.template gradient<"means">(), g.dmeans.transpose()) < 1e-12);
  CHECK(distance(f.template gradient<"deviations">(), g.ddeviations.transpose()) < 1e-12);
}

}  // namespace

TEST_SUITE_BEGIN("differentiate/examples");

TEST_CASE("least squares") {
  check(gradcheck<least_squares>());
  const Matrix A = Matrix::Random(21, 5);
  const Vector y = Vector::Random(21), w = Vector::Random(5);
  Function<least_squares> f;
  f.bind<"A">(A).bind<"y">(y).set<"w">(w);
  by_hand::LeastSquares g;
  CHECK(f.value_and_grad() == doctest::Approx(g(A, y, w)).epsilon(1e-12));
  CHECK(distance(f.gradient<"w">(), g.dw) < 1e-12);
}

TEST_CASE("logistic regression") {
  check(gradcheck<logistic_regression>());
  const Matrix X = 30 * Matrix::Random(21, 5);
  const Vector y = (Vector::Random(21).array() > 0).cast<double>(), w = Vector::Random(5);
  Function<logistic_regression> f;
  f.bind<"X">(X).bind<"y">(y).set<"w">(w).set<"b">(0.3);
  by_hand::LogisticRegression g;
  CHECK(f.value_and_grad() == doctest::Approx(g(X, y, w, 0.3)).epsilon(1e-12));
  CHECK(distance(f.gradient<"w">(), g.dw) < 1e-12);
  CHECK(f.gradient<"b">()(0) == doctest::Approx(g.db).epsilon(1e-12));
}

TEST_CASE("log sum exp") {
  check(gradcheck<log_sum_exp_of_all>());
  const Vector x = 800 * Vector::Random(43);
  Function<log_sum_exp_of_all> f;
  f.bind<"x">(x);
  by_hand::LogSumExp g;
  CHECK(f.value_and_grad() == doctest::Approx(g(x)).epsilon(1e-12));
  CHECK(distance(f.gradient<"x">(), g.dx) < 1e-12);
}

TEST_CASE("Gaussian mixture, of few components and of a vector of them") {
  check_mixture<gaussian_mixture>(3);
  check_mixture<wider_mixture>(8);
}

TEST_CASE("LSTM cell") {
  check(gradcheck<lstm_cell>());
  const Matrix x = Matrix::Random(5, 3), h = Matrix::Random(5, 4), c = Matrix::Random(5, 4);
  const Matrix W = Matrix::Random(3, 16), U = Matrix::Random(4, 16);
  const Vector b = Vector::Random(16);
  Function<lstm_cell> f;
  f.bind<"x">(x).bind<"h">(h).bind<"c">(c).bind<"W">(W).bind<"U">(U).bind<"b">(b);
  f.forward();
  f.output_gradient<0>().setOnes();
  f.output_gradient<1>().setOnes();
  f.backward();
  by_hand::LstmCell g;
  g(x, h, c, W, U, b);
  CHECK(distance(f.output<0>(), g.hidden) < 1e-12);
  CHECK(distance(f.output<1>(), g.cell) < 1e-12);
  CHECK(distance(f.gradient<"x">(), g.dx) < 1e-12);
  CHECK(distance(f.gradient<"h">(), g.dh) < 1e-12);
  CHECK(distance(f.gradient<"c">(), g.dc) < 1e-12);
  CHECK(distance(f.gradient<"W">(), g.dW) < 1e-12);
  CHECK(distance(f.gradient<"U">(), g.dU) < 1e-12);
  CHECK(distance(f.gradient<"b">(), g.db) < 1e-12);
}

TEST_CASE("perceptron") {
  check(gradcheck<perceptron>());
  const Matrix x = Matrix::Random(7, 3), y = Matrix::Random(7, 2), W = Matrix::Random(3, 5), V = Matrix::Random(5, 2);
  const Vector b = Vector::Random(5), c = Vector::Random(2);
  Function<perceptron> f;
  f.bind<"x">(x).bind<"y">(y).bind<"W">(W).bind<"b">(b).bind<"V">(V).bind<"c">(c);
  by_hand::Perceptron g;
  CHECK(f.value_and_grad() == doctest::Approx(g(x, y, W, b, V, c)).epsilon(1e-13));
  CHECK(distance(f.gradient<"W">(), g.dW) < 1e-12);
  CHECK(distance(f.gradient<"V">(), g.dV) < 1e-12);
  CHECK(distance(f.gradient<"b">(), g.db) < 1e-12);
  CHECK(distance(f.gradient<"c">(), g.dc) < 1e-12);
}

TEST_CASE("stochastic volatility") {
  const Vector y = Vector::Random(50), h = Vector::Random(50);
  check_within<stochastic_volatility>([&](auto& run) {
    set(run.input("y"), y.head(6)), set(run.input("h"), h.head(6));
    run.input("mu")[0] = -0.5, run.input("phi")[0] = 0.6, run.input("sigma")[0] = 0.8;
  });
  Function<stochastic_volatility> f;
  f.bind<"y">(y).bind<"h">(h).set<"mu">(-0.5).set<"phi">(0.9).set<"sigma">(0.3);
  by_hand::StochasticVolatility g;
  CHECK(f.value_and_grad() == doctest::Approx(g(y, h, -0.5, 0.9, 0.3)).epsilon(1e-12));
  CHECK(distance(f.gradient<"h">(), g.dh) < 1e-12);
  CHECK(f.gradient<"mu">()(0) == doctest::Approx(g.dmu).epsilon(1e-12));
  CHECK(f.gradient<"phi">()(0) == doctest::Approx(g.dphi).epsilon(1e-12));
  CHECK(f.gradient<"sigma">()(0) == doctest::Approx(g.dsigma).epsilon(1e-12));
}

TEST_SUITE_END();
