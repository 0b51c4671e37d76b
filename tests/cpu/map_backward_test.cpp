// SPDX-License-Identifier: MIT
#include <simplx/cpu/map_backward.hpp>

#include "support.hpp"

#include <simplx/ops/reduce.hpp>

using namespace simplx;

// Their pull-backs read the operand or the result, and do not say so.
template <>
struct simplx::op<"forgotten inputs"> : simplx::elementwise {
  SIMPLX_HD static constexpr auto f(auto x) { return x * x; }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x) { return 2 * g * x; }
};
template <>
struct simplx::op<"forgotten output"> : simplx::elementwise {
  SIMPLX_HD static constexpr auto f(auto x) { return exp(x); }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto y, auto) { return g * y; }
};

namespace {
template <Tag name>
struct Forgotten {
  constexpr Expr operator()(Expr x) const { return apply<name>({}, At(x)); }
};
inline constexpr test::OnTokens<Forgotten<"forgotten inputs">> inputs_forgotten{9};
inline constexpr test::OnTokens<Forgotten<"forgotten output">> output_forgotten{9};

/// All elements of the gradient of x, 8 of a vector's lanes and one beside them, are NaN.
template <auto const& model, class Backend>
bool all_nan() {
  Evaluation<model, Backend> run(Rows{.tokens = 3});
  std::ranges::fill(run.input("x"), 0.5f);
  run.forward();
  std::ranges::fill(run.output_gradient(), 1.0f);
  run.backward();
  return std::ranges::all_of(run.input_gradient("x"), [](auto g) { return g != g; });
}

/// A group whose root another step reads, whose leaves are summed over rows, over columns and over everything, and
/// whose members are evaluated again.
struct Everything {
  constexpr Expr operator()(Expr x) const {
    auto column = x * weight("column", width(x), 1), row = vector("row", width(x)), one = scalar("one");
    auto y = tanh(x * row + column) * (x + one) * exp(-(x * x));
    return y * sum(y * row, Over::rows) + y * sum(y + column, Over::columns) + one * sum(y * x);
  }
};
/// Rows of a few vectors and no columns: the sums down the rows stay in registers.
struct Narrow {
  constexpr Expr operator()(Expr x) const {
    auto row = vector("row", width(x)), one = scalar("one");
    return sigmoid(x * row + vector("bias", width(x))) * (x * x + one) * row;
  }
};
/// A number that a million others are multiplied by, which lie one after the other or, beside a row, in rows.
struct Scaled {
  bool beside_a_row;
  constexpr Expr operator()(Expr x) const {
    auto y = scalar("one") * x;
    return beside_a_row ? y + vector("row", width(x)) : y;
  }
};
inline constexpr test::OnTokens<Scaled> by_a_number{16, {false}}, beside_rows{5, {true}};
inline constexpr test::OnTokens<Narrow> narrow{3}, one_vector{8}, several{19};
inline constexpr test::OnTokens<Everything> wide{19}, vectors{16}, lone{1};
}  // namespace

TEST_SUITE_BEGIN("cpu/map_backward");

TEST_CASE("gradients of every spread, with and without elements left at the end of a row, in an arena full of noise") {
  test::check_model<wide>();
  test::check_model<vectors>();
  test::check_model<lone>();
  CHECK(test::distance_to_reference<wide, float>() < 1e-4);
}

TEST_CASE("gradients of rows in narrow groups") {
  test::check_model<narrow>();
  test::check_model<one_vector>();
  test::check_model<several>();
  CHECK(test::distance_to_reference<several, float>() < 1e-4);
}

/// The error of the sum of so many numbers of 0.1, a gradient, in parts of it.
template <auto const& model>
double error_of_sum(Index rows) {
  Evaluation<model, Cpu<float>> run(Rows{.tokens = rows});
  std::ranges::fill(run.input("x"), 0.1f);
  run.forward();
  std::ranges::fill(run.output_gradient(), 1.0f);
  run.backward();
  const double exact = static_cast<double>(0.1f) * static_cast<double>(run.input("x").size());
  return std::abs(run.gradient("one")[0] / exact - 1);
}

TEST_CASE("the gradient of a number that millions are multiplied by loses no digits to their count") {
  CHECK(error_of_sum<by_a_number>(1 << 18) < 2e-4);
  CHECK(error_of_sum<beside_rows>(1 << 18) < 2e-4);
}

TEST_CASE("a pull-back that reads what it does not declare gives NaN on both paths, not a gradient of zero") {
  CHECK(all_nan<inputs_forgotten, Cpu<float>>());
  CHECK(all_nan<inputs_forgotten, Cpu<double, Path::reference>>());
  CHECK(all_nan<output_forgotten, Cpu<float>>());
  CHECK(all_nan<output_forgotten, Cpu<double, Path::reference>>());
}

TEST_SUITE_END();
