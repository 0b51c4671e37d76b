// SPDX-License-Identifier: MIT
#include <simplx/ops/softmax.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
struct Softmax {
  constexpr Expr operator()(Expr x) const { return softmax(x * vector("row", width(x))) * x; }
};
struct LogSoftmax {
  constexpr Expr operator()(Expr x) const { return log_softmax(x * vector("row", width(x))) * x; }
};
struct LogSumExp {
  constexpr Expr operator()(Expr x) const {
    auto y = x * vector("row", width(x));
    return log_sum_exp(y, Over::columns) * x + log_sum_exp(y, Over::rows) + log_sum_exp(y);
  }
};
struct Results {
  Expr softmax, log_softmax, log_sum_exp, total;
};
inline constexpr auto all = [] {
  auto x = input("x", rows_of(Axis::batch, 3));
  return Results{softmax(x), log_softmax(x), log_sum_exp(x, Over::columns), log_sum_exp(x)};
};
inline constexpr auto total = [] { return log_sum_exp(variable("x", rows_of(Axis::batch, 3))); };
}  // namespace

TEST_SUITE_BEGIN("ops/softmax");

TEST_CASE_TEMPLATE_DEFINE("derivatives of every order", T, derivatives) {
  static constexpr test::OnTokens<T> model{19}, narrow{1};
  test::check_op<model>({.step = 0.01});
  test::check_model<narrow>();
  CHECK(test::distance_to_reference<model, float>() < 1e-5);
}
TEST_CASE_TEMPLATE_INVOKE(derivatives, Softmax, LogSoftmax, LogSumExp);

TEST_CASE("values, and arguments that would overflow") {
  Evaluation<all> run(Rows{.batch = 2});
  std::ranges::copy(std::array{std::log(1.0), std::log(2.0), std::log(5.0), 1000.0, 1000.0, -1000.0},
                    run.input("x").begin());
  run.forward();
  CHECK(run.output(0)[1] == doctest::Approx(0.25));
  CHECK(run.output(1)[2] == doctest::Approx(std::log(0.625)));
  CHECK(run.output(2)[0] == doctest::Approx(std::log(8.0)));
  CHECK(run.output(0)[3] == doctest::Approx(0.5));
  CHECK(run.output(1)[5] == doctest::Approx(-2000 - std::log(2.0)));
  CHECK(run.output(2)[1] == doctest::Approx(1000 + std::log(2.0)));
  CHECK(run.output(3)[0] == doctest::Approx(1000 + std::log(2.0)));
}

TEST_CASE_TEMPLATE("more rows than fit a block, narrow ones; one of them holds nothing", S, float, double) {
  const Index rows = 150, empty = 70;
  Evaluation<all, Cpu<S>> run(Rows{.batch = rows});
  for (Index i = 0; i < 3 * rows; ++i) run.input("x")[i] = i / 3 == empty ? S(-INFINITY) : S(i % 7) - S(i % 3);
  run.forward();
  double worst = 0;
  for (Index row = 0; row < rows; ++row) {
    const S *x = run.input("x").data() + 3 * row, *y = run.output(0).data() + 3 * row;
    const double total = std::exp(double(x[0])) + std::exp(double(x[1])) + std::exp(double(x[2]));
    if (row == empty) {
      CHECK(std::isnan(y[0]));
      CHECK(std::isnan(y[2]));
      continue;
    }
    for (Index c = 0; c < 3; ++c) worst = std::max(worst, std::abs(double(y[c]) - std::exp(double(x[c])) / total));
    worst = std::max(worst, std::abs(double(run.output(2)[row]) - std::log(total)));
  }
  CHECK(worst < (sizeof(S) == 4 ? 1e-6 : 1e-14));
  CHECK(run.output(2)[empty] == S(-INFINITY));
}

TEST_CASE_TEMPLATE("the log of the sum of everything is infinite where the largest is", S, float, double) {
  Evaluation<total, Cpu<S>> run(Rows{.batch = 2});
  for (const double largest : {double{INFINITY}, -double{INFINITY}}) {
    std::ranges::fill(run.input("x"), -S(INFINITY));
    run.input("x")[1] = S(largest);
    run.forward();
    CHECK(run.output()[0] == S(largest));
  }
  for (const double x : {0.0, 3.2e38, sizeof(S) == 8 ? 1e39 : -3.2e38}) {
    std::ranges::fill(run.input("x"), S(x));
    run.forward();
    CHECK(double(run.output()[0]) == doctest::Approx(x + std::log(6.0)));
    run.output_gradient()[0] = 1;
    run.backward();
    for (const S g : run.input_gradient("x")) CHECK(g == doctest::Approx(1.0 / 6));
  }
  Evaluation<all, Cpu<S>> rows(Rows{.batch = 1});
  std::ranges::copy(std::array{S(INFINITY), S(1), S(2)}, rows.input("x").begin());
  rows.forward();
  CHECK(rows.output(2)[0] == S(INFINITY));
}

TEST_CASE_TEMPLATE("a NaN beside infinities is one in each of them", S, float, double) {
  Evaluation<all, Cpu<S>> run(Rows{.batch = 1});
  for (const std::array x : {std::array{-S(INFINITY), S(NAN), -S(INFINITY)}, std::array{S(NAN), S(INFINITY), S(1)},
                             std::array{-S(INFINITY), -S(INFINITY), S(NAN)}}) {
    std::ranges::copy(x, run.input("x").begin());
    run.forward();
    CHECK(std::isnan(run.output(2)[0]));
    for (const S y : run.output(0)) CHECK(std::isnan(y));
  }
}

TEST_CASE("far from 0 nothing is lost but what the arguments have lost") {
  Evaluation<all, Cpu<float>> run(Rows{.batch = 1});
  for (const float x : {0.0f, 1e3f, -1e5f, 1e7f}) {
    std::ranges::fill(run.input("x"), x);
    run.forward();
    for (const float y : run.output(1)) CHECK(y == doctest::Approx(-std::log(3.0)).epsilon(1e-6));
  }
}

TEST_SUITE_END();
