// SPDX-License-Identifier: MIT
#include <simplx/differentiate/function.hpp>

#include <simplx/nn/norm.hpp>
#include <simplx/ops/activation.hpp>
#include <simplx/ops/attention.hpp>
#include <simplx/ops/columns.hpp>
#include <simplx/ops/cross_entropy.hpp>
#include <simplx/ops/dropout.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/reduce.hpp>
#include <simplx/ops/rows.hpp>
#include <simplx/ops/softmax.hpp>
#include <simplx/ops/stack.hpp>

#include "allocations.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace simplx;

namespace {

inline constexpr auto least_squares = [] {
  auto A = input("A", rows_of(Axis::batch, 3)), y = input("y", rows_of(Axis::batch, 1));
  auto w = variable("w", fixed_shape(3, 1));
  return sum(square(A * w - y));
};

inline constexpr auto rosenbrock = [] {
  auto x = variable("x", fixed_shape(1, 1)), y = variable("y", fixed_shape(1, 1));
  return square(1.0 - x) + 100.0 * square(y - square(x));
};

inline constexpr auto row_losses = [] {  // one loss for each row
  auto x = input("x", rows_of(Axis::batch, 3));
  auto h = tanh(x * weight("w", 3, 4, normal(1)));
  return cross_entropy(h, indices("label", Axis::batch));
};

inline constexpr auto several_weights = [] { return sum(weight("w", 4, 4, normal(1))); };
inline constexpr auto linear_classifier = [] {  // backward writes over the logits
  auto x = input("x", rows_of(Axis::batch, 3));
  return cross_entropy(x * weight("w", 3, 4, normal(1)), indices("label", Axis::batch));
};

inline constexpr auto of_sequences = [] {  // one number for each sequence, from its first token and an input of its own
  auto x = input("x", rows_of(Axis::tokens, 2)), bias = input("bias", rows_of(Axis::sequences, 2));
  return first_of_sequence(cumulative_sum(x)) + bias;
};
inline constexpr auto only_sequences = [] { return sum(input("x", rows_of(Axis::sequences, 1))); };

inline constexpr auto of_vectors = [] {  // widths that the vector kernels take
  auto x = input("x", rows_of(Axis::tokens, 64));
  auto n = RmsNorm{}(x);
  auto h = relu(n * weight("up", 64, 96)) * weight("down", 96, 64);
  auto attended = softmax_attention(n, x, x, {.count = 2, .mask = Mask::causal});
  return sum(square(h + attended + softmax(x) + x));
};

struct Both {
  Expr value, norms;
};
inline constexpr auto several = [] {
  auto x = variable("x", rows_of(Axis::batch, 4));
  auto w = vector("w", 4, constant(2));
  return Both{sum(x * w), sum(square(x) * w, Over::columns)};
};

inline constexpr auto stacked = [] {
  struct Layer {
    constexpr Expr operator()(Expr x) const { return x + x * weight("w", 4, 4, normal(1)); }
  };
  return sum(stack("blocks", 2, Layer{}, input("x", rows_of(Axis::batch, 4))));
};

inline constexpr auto dropped = [] {
  return sum(dropout("mask", input("x", rows_of(Axis::batch, 4)) * vector("w", 4), 0.5), Over::columns);
};
}  // namespace

TEST_SUITE_BEGIN("differentiate/function");

TEST_CASE("least squares bound to Eigen objects, in place and copied") {
  const Index n = 7;
  const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> A = Eigen::MatrixXd::Random(n, 3);
  const Eigen::MatrixXd column_major = A;
  const Eigen::VectorXd y = Eigen::VectorXd::Random(n), w = Eigen::VectorXd::Random(3);
  const Eigen::VectorXd expected = 2 * A.transpose() * (A * w - y);
  Function<least_squares> f;
  f.bind<"A">(A).bind<"y">(y).set<"w">(w);
  CHECK(f.value_and_grad() == doctest::Approx((A * w - y).squaredNorm()));
  CHECK((f.gradient<"w">() - expected).norm() < 1e-12);
  Function<least_squares> g;
  g.set<"A">(column_major.array()).set<"y">(std::vector<double>(y.data(), y.data() + n)).set<"w">(w.transpose());
  CHECK(g.value() == doctest::Approx((A * w - y).squaredNorm()));
  // Fewer rows, then more.
  for (const Index rows : {3, 50}) {
    const Eigen::MatrixXd B = Eigen::MatrixXd::Random(rows, 3);
    const Eigen::VectorXd z = Eigen::VectorXd::Random(rows);
    g.set<"A">(B).set<"y">(z);
    CHECK(g.value_and_grad() == doctest::Approx((B * w - z).squaredNorm()));
    CHECK((g.gradient<"w">() - 2 * B.transpose() * (B * w - z)).norm() < 1e-12);
  }
}

TEST_CASE("numbers") {
  Function<rosenbrock> f;
  f.set<"x">(-1.2).set<"y">(1);
  CHECK(f.value_and_grad() == doctest::Approx(24.2));
  CHECK(f.gradient<"x">()(0) == doctest::Approx(-215.6));
  CHECK(f.gradient<"y">()(0) == doctest::Approx(-88));
}

TEST_CASE("several results: any of them can be pulled back") {
  Function<several> f;
  const Eigen::MatrixXd x = Eigen::MatrixXd::Random(5, 4);
  f.set<"x">(x);
  f.forward();
  CHECK(f.output<0>()(0) == doctest::Approx(2 * x.sum()));
  CHECK((f.output<1>() - 2 * x.rowwise().squaredNorm()).norm() < 1e-12);
  f.output_gradient<0>().setZero();
  f.output_gradient<1>().setOnes();
  f.backward();
  CHECK((f.gradient<"x">() - 4 * x).norm() < 1e-12);
  CHECK((f.gradient<"w">() - x.colwise().squaredNorm()).norm() < 1e-12);
}

TEST_CASE("results can be pulled back one after the other after one evaluation") {
  Function<linear_classifier> f;
  f.set<"x">(Eigen::MatrixXd(Eigen::MatrixXd::Random(5, 3)));
  f.set<"label">(std::vector<std::int32_t>{0, 3, 1, 1, 2});
  const auto rows = f.row_gradients<"w">();
  f.forward();
  for (Index row = 0; row < 5; ++row) {
    f.output_gradient<0>().setZero();
    f.output_gradient<0>()(row) = 1;
    f.backward();
    const auto w = f.gradient<"w">();
    CHECK((Eigen::RowVectorXd::Map(w.data(), 12) - rows.row(row)).norm() < 1e-12);
  }
}

TEST_CASE("each row's gradient has the dropout mask that the row has among all") {
  Function<dropped> f;
  f.set<"x">(Eigen::MatrixXd(Eigen::MatrixXd::Random(9, 4)));
  f.random().training = true;
  const Eigen::RowVectorXd sums = f.row_gradients<"w">().colwise().sum();
  f.forward();
  f.output_gradient().setOnes();
  f.backward();
  CHECK((f.gradient<"w">() - sums).norm() < 1e-12);
}

TEST_CASE("one gradient for each row; their sum is the gradient of the sum") {
  Function<row_losses> f(5);
  const Eigen::MatrixXd x = Eigen::MatrixXd::Random(6, 3);
  const Eigen::VectorXi labels = (Eigen::VectorXi(6) << 0, 3, 1, -100, 2, 2).finished();
  f.set<"x">(x).set<"label">(labels);
  const Eigen::MatrixXd rows = f.row_gradients<"w">();
  CHECK(rows.rows() == 6);
  CHECK(rows.cols() == 12);
  CHECK(rows.row(3).norm() == 0);  // no label
  CHECK_THROWS_WITH_AS(f.gradient<"w">(), doctest::Contains("gradient() without a backward()"), Error);
  const Eigen::VectorXd losses = f.output();  // of all rows
  f.output_gradient().setOnes();
  f.backward();
  const Eigen::MatrixXd gradient = f.gradient<"w">();
  f.forward();
  CHECK(f.output() == losses);
  f.output_gradient().setOnes();
  f.backward();
  CHECK(f.gradient<"w">() == gradient);
  const Eigen::Map<const Eigen::RowVectorXd> whole(f.gradient<"w">().data(), 12);
  CHECK((rows.colwise().sum() - whole).norm() < 1e-13);
  Function<row_losses> alone(5);  // a single row by itself
  alone.set<"x">(x.row(4)).set<"label">(2);
  alone.forward();
  alone.output_gradient().setOnes();
  alone.backward();
  CHECK((rows.row(4) - Eigen::Map<const Eigen::RowVectorXd>(alone.gradient<"w">().data(), 12)).norm() < 1e-14);
}

TEST_CASE("what does not fit is refused with both sizes") {
  Function<least_squares> f;
  CHECK_THROWS_WITH_AS(f.forward(), doctest::Contains("'A' was never set"), Error);
  CHECK_THROWS_WITH_AS(f.set<"A">(Eigen::MatrixXd(5, 4)), doctest::Contains("A is given 5 x 4"), Error);
  f.set<"A">(Eigen::MatrixXd(5, 3)).set<"y">(Eigen::VectorXd(4)).set<"w">(Eigen::VectorXd(3));
  CHECK_THROWS_WITH_AS(f.value(), doctest::Contains("'y' has 4 rows"), Error);
}

TEST_CASE("parts of a larger matrix are copied by set and refused by bind") {
  const Eigen::MatrixXd large = Eigen::MatrixXd::Random(7, 5);
  const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> rows = large;
  const Eigen::VectorXd w = Eigen::VectorXd::Random(3);
  Function<least_squares> f;
  CHECK_THROWS_WITH_AS(f.bind<"A">(rows.leftCols(3)), doctest::Contains("part of a larger matrix"), Error);
  CHECK_THROWS_WITH_AS(f.bind<"y">(rows.col(1)), doctest::Contains("part of a larger matrix"), Error);
  f.set<"A">(rows.leftCols(3)).bind<"y">(large.col(1)).set<"w">(w);
  CHECK(f.value() == doctest::Approx((large.leftCols(3) * w - large.col(1)).squaredNorm()));
}

TEST_CASE_TEMPLATE("memory that begins on no vector is read in place, with the same bits", S, float, double) {
  using Rows = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Rows x = Rows::Random(37, 64);
  std::vector<S> memory(static_cast<std::size_t>(x.size()) + 16);
  Function<of_vectors, Cpu<S>> f(1), g(1);
  f.template bind<"x">(x);
  const S value = f.value_and_grad();
  for (std::size_t offset = 1; offset < 16; offset += 2) {
    Eigen::Map<Rows> moved(memory.data() + offset, x.rows(), x.cols());
    moved = x;
    g.template bind<"x">(moved);
    CHECK(g.value_and_grad() == value);
    CHECK(g.template gradient<"up">() == f.template gradient<"up">());
    CHECK(g.template gradient<"down">() == f.template gradient<"down">());
    CHECK(g.template gradient<"gain">() == f.template gradient<"gain">());
  }
}

TEST_CASE("sequences can be given before and after a run, and have rows of their own") {
  Function<of_sequences> f;
  const Eigen::MatrixXd x = Eigen::MatrixXd::Random(6, 2);
  f.set<"x">(x).set<"bias">(Eigen::MatrixXd::Zero(1, 2));
  f.forward();
  CHECK((f.output() - x.row(0)).norm() == 0);
  const std::vector<Index> lengths{1, 0, 5}, short_of{2, 3};
  f.set_sequences(lengths).set<"bias">(Eigen::MatrixXd::Zero(3, 2));
  f.forward();
  CHECK((f.output().row(2) - x.row(1)).norm() == 0);
  CHECK(f.output().row(1).norm() == 0);  // an empty sequence
  CHECK_THROWS_WITH_AS(f.set_sequences(short_of).forward(), doctest::Contains("5 tokens together, not 6"), Error);
  Function<only_sequences> g;
  CHECK(g.set<"x">(Eigen::VectorXd::Ones(6)).value() == 6);
  CHECK(g.set<"x">(Eigen::VectorXd(0)).value() == 0);
}

TEST_CASE("indices out of range are refused, and gradients wait for their values") {
  Function<row_losses> f;
  f.set<"x">(Eigen::MatrixXd::Random(2, 3)).set<"label">(Eigen::Vector2i(0, 4));
  CHECK_THROWS_WITH_AS(f.forward(), doctest::Contains("'label' names 4 in row 1"), Error);
  f.set<"label">(std::vector<int>{3, -100});
  CHECK_NOTHROW(f.forward());
  CHECK_THROWS_WITH_AS(f.gradient<"w">(), doctest::Contains("gradient() without a backward()"), Error);
  f.output_gradient().setOnes();
  f.backward();
  CHECK_NOTHROW(f.gradient<"w">());
  f.set<"x">(Eigen::MatrixXd::Random(2, 3));
  CHECK_THROWS_WITH_AS(f.backward(), doctest::Contains("backward() without a forward()"), Error);
  const std::vector<std::int32_t> labels{1, 2, 3};
  f.set<"x">(Eigen::MatrixXd::Random(3, 3)).bind<"label">(labels);
  CHECK_THROWS_WITH_AS(f.backward(), doctest::Contains("backward() without a forward()"), Error);
  f.forward();
  CHECK_THROWS_AS(f.gradient<"w">(), Error);  // of other rows
}

TEST_CASE("parameters and their gradients by name and all together are the same numbers") {
  Function<row_losses> f(3);
  const Eigen::MatrixXd x = Eigen::MatrixXd::Random(2, 3);
  f.set<"x">(x).set<"label">(std::vector<std::int32_t>{1, 3});
  f.forward();
  f.output_gradient().setOnes();
  f.backward();
  const TensorInfo& w = f.tensors().parameters[0];
  const auto value = f.parameter<"w">(), gradient = f.gradient<"w">();
  REQUIRE(f.gradients().size() == f.parameters().size());
  for (Index i = 0; i < w.size(); ++i) {
    CHECK(f.parameters()[w.offset + i] == value.data()[i]);
    CHECK(f.gradients()[w.offset + i] == gradient.data()[i]);
  }
  CHECK(value.norm() > 0.1);
  CHECK(gradient.norm() > 0.01);

  f.parameter<"w">().setZero();  // in place: all classes become equally likely
  f.forward();
  CHECK(f.output()(0) == doctest::Approx(std::log(4.0)));
}

TEST_CASE("parameters within a stack are found by their names at run time") {
  Function<stacked> f(3);
  f.set<"x">(Eigen::MatrixXd::Ones(2, 4));
  CHECK_THROWS_WITH_AS(f.gradient("blocks.1.w"), doctest::Contains("gradient() without a forward()"), Error);
  std::ranges::fill(f.parameter("blocks.0.w"), 0.0);
  std::ranges::fill(f.parameter("blocks.1.w"), 0.5);
  CHECK_THROWS_WITH_AS(f.parameter("blocks.2.w"), doctest::Contains("blocks.0.w"), Error);
  CHECK_THROWS_WITH_AS(f.constant("w"), doctest::Contains("no constant named 'w'\n  hint: it has none at all"), Error);
  CHECK(f.value() == 2 * 4 * 3);  // x, then x + 4 * 0.5
  CHECK_THROWS_WITH_AS(f.gradient("blocks.1.w"), doctest::Contains("gradient() without a backward()"), Error);
  f.value_and_grad();
  for (const double g : f.gradient("blocks.1.w")) CHECK(g == 2);  // of two rows of ones
  for (const double g : f.gradient("blocks.0.w")) CHECK(g == 2 * (1 + 4 * 0.5));
}

TEST_CASE("an input that is refused leaves the one before") {
  Function<row_losses> f;
  f.set<"x">(Eigen::MatrixXd::Identity(2, 3)).set<"label">(std::vector<std::int64_t>{1, 2});
  f.forward();
  const Eigen::MatrixXd before = f.output();
  CHECK_THROWS_AS(f.set<"label">(std::vector<std::int64_t>{3, std::int64_t(1) << 40}), Error);
  CHECK_THROWS_AS(f.set<"label">(std::vector<std::int64_t>(1000, std::int64_t(1) << 40)), Error);  // in new memory
  using Column = Eigen::Matrix<std::int64_t, Eigen::Dynamic, 1>;
  CHECK_THROWS_AS(f.set<"label">(Column::Constant(2, std::int64_t(1) << 40)), Error);
  f.forward();
  CHECK(f.output() == before);
}

TEST_CASE("what is set may be made of what is there") {
  using Square = Eigen::Matrix<double, 4, 4, Eigen::RowMajor>;
  Function<several_weights, Cpu<double>> f(1);
  const Square w = f.parameter<"w">();
  f.set<"w">(f.parameter<"w">() + 2.0 * f.parameter<"w">().transpose());
  CHECK(Square(f.parameter<"w">()) == Square(w + 2.0 * w.transpose()));
  f.set<"w">(w).set<"w">(f.parameter<"w">().rowwise().reverse());
  CHECK(Square(f.parameter<"w">()) == Square(w.rowwise().reverse()));
}

TEST_CASE("where memory is short the inputs before stay, and fewer rows are evaluated as before") {
  Function<linear_classifier, Cpu<double>> f(1);
  const std::vector<double> few(6, 0.5), many(300, 0.25);
  const std::vector<int> labels(2, 1), more_labels(100, 2);
  const auto losses = [&] { return std::vector<double>(f.output().data(), f.output().data() + f.output().size()); };
  f.set<"x">(few).set<"label">(labels).forward();
  const std::vector<double> before = losses();
  const long set = test::without_memory([&] { f.set<"x">(many); }, [&] {
    f.forward();
    CHECK(losses() == before);
  });
  CHECK(set == 1);
  f.set<"label">(more_labels);
  const long evaluated = test::without_memory([&] { f.forward(); }, [&] {
    f.set<"x">(few).set<"label">(labels).forward();
    CHECK(losses() == before);
    f.set<"x">(many).set<"label">(more_labels);
  });
  CHECK(evaluated > 0);
  CHECK(f.output().size() == 100);
}

TEST_CASE("labels that are smoothed by nothing leave out classes of minus infinity") {
  static constexpr auto smoothed = [] {
    return mean(cross_entropy(variable("x", rows_of(Axis::batch, 3)), indices("i", Axis::batch), hyper("by", 0.0)));
  };
  Function<smoothed> f;
  Eigen::MatrixXd x = Eigen::MatrixXd::Zero(2, 3);
  x(1, 2) = -std::numeric_limits<double>::infinity();
  f.set<"x">(x).set<"i">(std::vector<int>{0, 1});
  CHECK(f.value_and_grad() == doctest::Approx((std::log(3) + std::log(2)) / 2));
  CHECK(f.gradient<"x">().allFinite());
}

TEST_CASE("a forward() that refused what is bound leaves nothing to go back from") {
  static constexpr auto picked = [] {
    return sum(gather(variable("x", rows_of(Axis::batch, 3)), indices("i", Axis::sequences)));
  };
  Function<picked> f;
  std::vector<int> which{3, 0};
  f.set<"x">(Eigen::MatrixXd(Eigen::MatrixXd::Ones(4, 3))).bind<"i">(which).value_and_grad();
  which[1] = 7;
  CHECK_THROWS_AS(f.forward(), Error);
  CHECK_THROWS_WITH_AS(f.backward(), doctest::Contains("backward() without a forward()"), Error);
}

TEST_SUITE_END();
