// SPDX-License-Identifier: MIT
#include <simplx/ops/matmul.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

template <Index out>
struct Product {
  constexpr Expr operator()(Expr x) const { return x * weight("w", width(x), out, normal(1)); }
};
template <Index out>
struct Transposed {
  constexpr Expr operator()(Expr x) const { return x * transpose(weight("w", out, width(x), normal(1))); }
};
struct Epilogues {  // the product ends in a loop of its own: relu, gains, a residual, a second product
  constexpr Expr operator()(Expr x) const {
    auto w = weight("w", width(x), 16, normal(0.3));
    auto h = relu(x * w + vector("b", 16)) * vector("g", 16);
    return h + scalar("s") * (h * weight("u", 16, 16)) + x * w;  // w used twice
  }
};
struct Computed {  // a right operand that is no parameter, and a transpose that is no operand
  constexpr Expr operator()(Expr x) const {
    auto w = scalar("a") * weight("w0", width(x), 8) + transpose(weight("v", 8, width(x)));
    return x * w + x * (w * weight("square", 8, 8));
  }
};
struct Repeated {  // one matrix on both sides
  constexpr Expr operator()(Expr x) const {
    auto w = weight("w", width(x), width(x), normal(0.5));
    return x * (w * w) + (x * w) * transpose(w);
  }
};
struct KeptForProducts {  // values that nobody but the product's own pull-back needs
  constexpr Expr operator()(Expr x) const {
    auto h = (x + vector("a", width(x))) * weight("w", width(x), 16, normal(0.5));
    auto computed = weight("u", 16, 8) + weight("v", 16, 8);
    return (h + vector("b", 16)) * computed + vector("c", 8);
  }
};
struct OnData {  // X needs no gradient, but W's pull-back reads it
  constexpr Expr operator()() const {
    auto x = input("x", rows_of(Axis::tokens, 8)) * 2.0 + 1.0;
    return tail(x * weight("w", 8, 16, normal(0.5)));
  }
  static constexpr Expr tail(Expr h) { return (h * vector("g", 16)) * weight("u", 16, 8) * vector("c", 8); }
};
inline constexpr OnData on_data{};

inline constexpr test::OnTokens<Product<16>> wide{8}, odd_in{5};
inline constexpr test::OnTokens<Product<3>> odd_out{8};
inline constexpr test::OnTokens<Product<1>> one{1}, vector19{19}, vector64{64};
inline constexpr test::OnTokens<Transposed<1>> row19{19};
inline constexpr test::OnTokens<Transposed<16>> transposed{8};
inline constexpr test::OnTokens<Transposed<5>> transposed_odd{7};
inline constexpr test::OnTokens<Epilogues> epilogues{16};
inline constexpr test::OnTokens<Computed> computed{8}, computed_odd{3};
inline constexpr test::OnTokens<Repeated> repeated{8}, repeated_odd{3};
inline constexpr test::OnTokens<KeptForProducts> kept{8}, kept_odd{5};
inline constexpr test::OnTokens<Product<64>> for_floats{48};

/// What is not trained is not packed beforehand, and has no room for it.
inline constexpr auto by_drawn = [] {
  return input("x", rows_of(Axis::batch, 32)) * fixed("w0", 32, 32, orthogonal);
};
inline constexpr auto by_trained = [] { return input("x", rows_of(Axis::batch, 32)) * weight("w", 32, 32); };
template <auto const& model>
constexpr Shape shape_of_result = GraphOf<model>::table.info[view_of<GraphOf<model>>.result_node(0)].shape;
static_assert(GraphOf<by_drawn>::layout.packed_elements == 0 && GraphOf<by_trained>::layout.packed_elements > 0);

// What the shapes alone would not say: of matrices that are columns, rows or numbers.
inline constexpr auto outer = [] {
  return matmul(input("x", rows_of(Axis::batch, 1)), weight("row", 1, 3, normal(1))) * weight("w", 3, 2, normal(1));
};
inline constexpr auto products = [] {
  const Expr a = weight("a", 3, 3, normal(1)), column = weight("column", 3, 1, normal(1)), number = scalar("number");
  return matmul(a, column) + matmul(multiply(a, column), column) + matmul(column, number);
};
inline constexpr auto of_transposed = [] {
  const Expr x = input("x", rows_of(Axis::batch, 3)), w = weight("w", 2, 3, normal(1));
  return matmul(transpose(x), matmul(x, transpose(w)));
};
static_assert(shape_of_result<products> == fixed_shape(3, 1) && shape_of_result<of_transposed> == fixed_shape(3, 2));
}  // namespace

TEST_SUITE_BEGIN("ops/matmul");

TEST_CASE("matmul is the matrix product, whatever the shapes") {
  CHECK(gradcheck<outer>().holds());
  CHECK(gradcheck<products>().holds());
  CHECK(gradcheck<of_transposed>().holds());
  Evaluation<products> run({}, 2);
  run.forward();
  using Matrix = Eigen::Matrix<double, 3, 3, Eigen::RowMajor>;
  const auto a = Matrix::Map(run.parameter("a").data());
  const auto column = Eigen::Vector3d::Map(run.parameter("column").data());
  const Eigen::Vector3d expected =
      a * column + column.asDiagonal() * a * column + column * run.parameter("number")[0];
  CHECK((Eigen::Vector3d::Map(run.output().data()) - expected).norm() < 1e-14);
}

TEST_CASE("gradients of X and W, for every width") {
  test::check_model<wide>();
  test::check_model<odd_in>();
  test::check_model<odd_out>();
  test::check_model<one>();
  test::check_model<vector19>();
  test::check_model<vector64>();
  test::check_model<row19>();
  test::check_model<transposed>();
  test::check_model<transposed_odd>();
}

TEST_CASE("a product ends in the elementwise loop that uses it") {
  using G = GraphOf<epilogues>;
  int finished = 0;
  for (int i = 0; i < G::count; ++i) finished += G::fusion.finished_by[i] >= 0;
  CHECK(finished == 2);  // the first x * w, and one of the two of the last line
  test::check_model<epilogues>({.step = 1e-3});
}

TEST_CASE("right operands that are computed, and used on both sides") {
  test::check_model<computed>();
  test::check_model<computed_odd>();
  test::check_model<repeated>();
  test::check_model<repeated_odd>();
}

TEST_CASE("a product keeps what its own pull-back reads") {
  test::check_model<kept>();
  test::check_model<kept_odd>();
  test::check_model<on_data>();
}

TEST_CASE("floats agree with the reference") { CHECK(test::distance_to_reference<for_floats, float>() < 1e-5); }

TEST_CASE("a product with a vector agrees with the reference") {
  CHECK(test::distance_to_reference<vector19, float>() < 1e-5);
  CHECK(test::distance_to_reference<row19, float>() < 1e-5);
}

TEST_SUITE_END();
