// SPDX-License-Identifier: MIT
#include <simplx/ops/rows.hpp>

#include <simplx/ops/matmul.hpp>
#include <simplx/ops/reduce.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
constexpr Expr scaled(Expr x) { return x * vector("row", width(x)); }

struct Down {
  constexpr Expr operator()(Expr x) const { return shift(scaled(x), 1) * x + shift(x, 2); }
};
struct Up {
  constexpr Expr operator()(Expr x) const { return shift(scaled(x), -2) * x; }
};
struct Beyond {  // further than the sequences are long
  constexpr Expr operator()(Expr x) const { return shift(scaled(x), 100) + x; }
};
struct Running {
  constexpr Expr operator()(Expr x) const { return cumulative_sum(scaled(x)) * x; }
};
struct First {
  constexpr Expr operator()(Expr x) const { return square(first_of_sequence(scaled(x))); }
};
struct Gathered {  // from a value along an axis, indices along another
  constexpr Expr operator()(Expr x) const { return square(gather(scaled(x), indices("index", Axis::labelled))); }
};
struct Parts {
  constexpr Expr operator()(Expr x) const {
    auto w = weight("w", 6, width(x));
    return x * (slice_rows(w, 0, 1) + slice_rows(w, 3, 1)) + x * transpose(slice_rows(w, 2, 3)) * slice_rows(w, 1, 3);
  }
};
struct TokensOfClass {
  constexpr Expr operator()() const { return Gathered{}(variable("x", rows_of(Axis::tokens, 5))); }
};
inline constexpr TokensOfClass gathered{};

std::vector<double> run_on_two_sequences(auto& run) {  // 1, 2, 3 and 4, 5
  for (std::size_t i = 0; i < 5; ++i) run.input("x")[i] = static_cast<double>(i + 1);
  run.forward();
  return {run.output().begin(), run.output().end()};
}
}  // namespace

TEST_SUITE_BEGIN("ops/rows");

TEST_CASE_TEMPLATE_DEFINE("derivatives of every order", T, derivatives) {
  static constexpr test::OnTokens<T> model{5};
  test::check_op<model>();
  CHECK(test::distance_to_reference<model, float>() < 1e-5);
}
TEST_CASE_TEMPLATE_INVOKE(derivatives, Down, Up, Beyond, Running, First, Parts);

TEST_CASE("running sums of more columns than a vector has") {
  static constexpr test::OnTokens<Running> wide{37};
  test::check_op<wide>();
  CHECK(test::distance_to_reference<wide, float>() < 1e-5);
  static constexpr auto running = [] { return cumulative_sum(input("x", rows_of(Axis::tokens, 37))); };
  Evaluation<running> run(Rows{.tokens = 5}, 0, {3, 2});
  for (std::size_t i = 0; i < 5 * 37; ++i) run.input("x")[i] = static_cast<double>(i);
  run.forward();
  for (std::size_t i = 0; i < 5 * 37; ++i) {
    const bool begins = i / 37 == 0 || i / 37 == 3;
    CHECK(run.output()[i] == static_cast<double>(i) + (begins ? 0 : run.output()[i - 37]));
  }
}

TEST_CASE("rows of a computed table, named by indices along another axis") {
  const GradientReport report = gradcheck<gathered>({.rows = {.tokens = 9, .labelled = 7}, .classes = 9});
  CHECK(report.worst < 1e-7);
  CHECK(report.adjoint < 1e-11);
  CHECK(report.jvp < 1e-13);
  CHECK(report.hvp < 1e-6);
}

TEST_CASE("moves stay within each sequence") {
  static constexpr auto down = [] { return shift(input("x", rows_of(Axis::tokens, 1)), 1); };
  static constexpr auto up = [] { return shift(input("x", rows_of(Axis::tokens, 1)), -1); };
  static constexpr auto running = [] { return cumulative_sum(input("x", rows_of(Axis::tokens, 1))); };
  static constexpr auto first = [] { return first_of_sequence(input("x", rows_of(Axis::tokens, 1))); };
  const std::vector<Index> lengths{3, 2};
  Evaluation<down> a(Rows{.tokens = 5}, 0, lengths);
  CHECK(run_on_two_sequences(a) == std::vector<double>{0, 1, 2, 0, 4});
  Evaluation<up> b(Rows{.tokens = 5}, 0, lengths);
  CHECK(run_on_two_sequences(b) == std::vector<double>{2, 3, 0, 5, 0});
  Evaluation<running> c(Rows{.tokens = 5}, 0, lengths);
  CHECK(run_on_two_sequences(c) == std::vector<double>{1, 3, 6, 4, 9});
  Evaluation<first> d(Rows{.tokens = 5}, 0, lengths);
  CHECK(run_on_two_sequences(d) == std::vector<double>{1, 4});
}

TEST_SUITE_END();
