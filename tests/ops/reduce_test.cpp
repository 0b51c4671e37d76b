// SPDX-License-Identifier: MIT
#include <simplx/ops/reduce.hpp>

#include <simplx/differentiate/function.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

struct SumAll {
  constexpr Expr operator()(Expr x) const { return sum(square(x) * vector("row", width(x))); }
};
struct SumRows {
  constexpr Expr operator()(Expr x) const {
    return sum(x * x + vector("row", width(x)), Over::rows) * vector("other", width(x));
  }
};
struct SumColumns {
  constexpr Expr operator()(Expr x) const { return x * sum(square(x), Over::columns) + sum(x, Over::columns); }
};
struct Means {
  constexpr Expr operator()(Expr x) const {
    return (x - mean(x, Over::columns)) * (square(x) - mean(square(x), Over::rows)) + mean(x);
  }
};
struct Maxima {
  constexpr Expr operator()(Expr x) const {
    return max(x, Over::columns) * x + max(x * x, Over::rows) + max(x);
  }
};
struct OfProducts {  // a product is stored, then summed; once it is used beside the sum
  constexpr Expr operator()(Expr x) const {
    auto y = x * weight("w", width(x), width(x), normal(0.3));
    return y * sum(exp(y) + y, Over::rows) + sum(x * weight("v", width(x), 3), Over::all);
  }
};
struct OfWeights {  // sums of values without a run-time axis
  constexpr Expr operator()(Expr x) const {
    auto w = weight("w", width(x), 3, normal(1));
    auto column = sum(w * scalar("s"), Over::columns);  // (width, 1)
    return x * column + x * sum(w) + sum(square(w), Over::rows) * weight("v", 3, width(x));
  }
};
struct Error2 {
  constexpr Expr operator()(Expr x) const { return mean_squared_error(x, vector("target", width(x))); }
};

/// Sums in which a number that is not there would count as one.
template <Index cols, Over over>
inline constexpr auto exponentials = [] {
  return sum(exp(input("x", rows_of(Axis::batch, cols)) + vector("row", cols, zeros)), over);
};

/// Of zeros.
template <class S, Index cols>
void check_counts(Index rows) {
  CAPTURE(cols);
  const Eigen::MatrixXd x = Eigen::MatrixXd::Zero(rows, cols);
  Function<exponentials<cols, Over::all>, Cpu<S>> all(1);
  CHECK(all.template set<"x">(x).value() == static_cast<S>(rows * cols));
  Function<exponentials<cols, Over::columns>, Cpu<S>> of_columns(1);
  of_columns.template set<"x">(x).forward();
  CHECK((of_columns.output().array() == static_cast<S>(cols)).all());
  Function<exponentials<cols, Over::rows>, Cpu<S>> of_rows(1);
  of_rows.template set<"x">(x).forward();
  CHECK((of_rows.output().array() == static_cast<S>(rows)).all());
}

}  // namespace

TEST_SUITE_BEGIN("ops/reduce");

TEST_CASE_TEMPLATE("every element is summed once, in rows of any width and in more than are added at once", S, float,
                   double) {
  constexpr Index many = cpu::added_at_once + 3;
  check_counts<S, 1>(many), check_counts<S, 2>(many), check_counts<S, 5>(many);
  check_counts<S, 11>(7), check_counts<S, 16>(2 * cpu::added_at_once + 1), check_counts<S, 37>(3), check_counts<S, 83>(2);
}

TEST_CASE_TEMPLATE_DEFINE("derivatives of every order", T, derivatives) {
  static constexpr test::OnTokens<T> model{19}, narrow{1};
  test::check_op<model>({.step = 0.01});
  test::check_op<narrow>({.step = 0.01});
  CHECK(test::distance_to_reference<model, float>() < 1e-5);
}
TEST_CASE_TEMPLATE_INVOKE(derivatives, SumAll, SumRows, SumColumns, Means, Maxima, OfProducts, OfWeights, Error2);

template <Index cols>
inline constexpr auto mean_of_rows = [] { return mean(input("x", rows_of(Axis::batch, cols)), Over::rows); };

template <Index cols>
inline constexpr auto largest_in_columns = [] { return max(input("x", rows_of(Axis::batch, cols)), Over::rows); };

template <class S, Index cols>
void check_maxima(Index rows) {
  CAPTURE(cols);
  using Matrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Matrix x = Matrix::Random(rows, cols).array() - S(2);  // below 0, where the largest of nothing else is
  Function<largest_in_columns<cols>, Cpu<S>> f(1);
  f.template set<"x">(x).forward();
  CHECK((f.output() == x.colwise().maxCoeff()));
}

TEST_CASE_TEMPLATE("maxima over rows of any width, of negative numbers", S, float, double) {
  check_maxima<S, 1>(9), check_maxima<S, 3>(1), check_maxima<S, 5>(40), check_maxima<S, 16>(7);
  check_maxima<S, 37>(3), check_maxima<S, 83>(200);
}

TEST_CASE("the mean over no rows is 0, of one column as of several") {
  Function<mean_of_rows<1>> one(1);
  one.set<"x">(Eigen::MatrixXd(0, 1)).forward();
  CHECK(one.output()(0) == 0);
  Function<mean_of_rows<3>> three(1);
  three.set<"x">(Eigen::MatrixXd(0, 3)).forward();
  CHECK(three.output().norm() == 0);
}

TEST_CASE("a sum ends the loop of what it sums") {
  static constexpr test::OnTokens<SumAll> model{8};
  static_assert(GraphOf<model>::fusion.steps == 2);  // square, product and sum; the result
  static_assert(GraphOf<model>::layout.kept == Columns{});  // x and row are not the model's to keep
}

TEST_CASE("a costly value on the way to a sum is kept in passing, not evaluated again") {
  static constexpr auto model = [] {
    auto x = variable("x", rows_of(Axis::batch, 5));
    return sum(exp(2.0 * x) * square(x) + log(1.0 + x * x));
  };
  using G = GraphOf<model>;
  static_assert(G::fusion.steps == 2);  // and the result
  static_assert(G::layout.kept[Axis::batch] == 5);  // exp, which backward reads, and not log, which it does not
  Evaluation<model> run(Rows{.batch = 3});
  for (int i = 0; i < 15; ++i) run.input("x")[i] = 0.1 * i;
  run.forward();
  run.output_gradient()[0] = 3;
  run.backward();
  double worst = 0;
  for (int i = 0; i < 15; ++i) {
    const double x = 0.1 * i, expected = 3 * (2 * std::exp(2 * x) * (x * x + x) + 2 * x / (1 + x * x));
    worst = std::max(worst, std::abs(run.input_gradient("x")[i] - expected));
  }
  CHECK(worst < 1e-12);
}

TEST_CASE_TEMPLATE("the largest of any number of elements", S, float, double) {
  static constexpr auto model = [] { return max(input("x", rows_of(Axis::tokens, 1))); };
  for (const Index rows : {1, 7, 16, 64, 83}) {
    for (const Index at : {Index(0), rows / 2, rows - 1}) {
      Evaluation<model, Cpu<S>> run(Rows{.tokens = rows});
      for (Index i = 0; i < rows; ++i) run.input("x")[i] = S(i == at ? -0.5 : -1 - i % 5);
      run.forward();
      CHECK(run.output()[0] == S(-0.5));
      run.input("x")[at] = std::numeric_limits<S>::quiet_NaN();
      run.forward();
      CHECK(std::isnan(run.output()[0]));
    }
  }
}

TEST_CASE("by hand") {
  static constexpr test::OnTokens<Means> means{2};
  Evaluation<means> run(Rows{.tokens = 2});
  std::ranges::copy(std::array{1.0, 3.0, 5.0, 9.0}, run.input("x").begin());
  run.forward();
  // mean over columns 2, 7; of squares over rows 13, 45; over all 4.5
  CHECK(run.output()[0] == doctest::Approx((1 - 2) * (1 - 13) + 4.5));
  CHECK(run.output()[3] == doctest::Approx((9 - 7) * (81 - 45) + 4.5));
}

TEST_CASE("the first of several largest elements gets the gradient; NaN is not lost") {
  static constexpr auto highest = [] { return max(variable("x", rows_of(Axis::tokens, 3)), Over::columns); };
  Evaluation<highest> run(Rows{.tokens = 2});
  std::ranges::copy(std::array{1.0, 2.0, 2.0, 0.0, -1.0, std::nan("")}, run.input("x").begin());
  run.forward();
  CHECK(run.output()[0] == 2);
  CHECK(std::isnan(run.output()[1]));
  std::ranges::fill(run.output_gradient(), 1.0);
  run.backward();
  CHECK(run.input_gradient("x")[1] == 1);
  CHECK(run.input_gradient("x")[2] == 0);
  using D = Dual<double>;
  const D numbers[]{{1, 0}, {5, 1}, {0, 0}, {0, 0}, {5, 2}, {0, 0}};  // and its direction, too
  CHECK(op<"maximum">::largest_of(numbers, 6).tangent == 1);
}

TEST_SUITE_END();
