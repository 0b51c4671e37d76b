// SPDX-License-Identifier: MIT
#include <simplx/ops/transpose.hpp>

#include <simplx/ops/matmul.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
struct OverRows {  // X^T Y, a static matrix, multiplied from the right
  constexpr Expr operator()(Expr x) const {
    auto y = x * weight("w", width(x), 4);
    return y * (transpose(y) * x) + x * (transpose(x) * x);
  }
};
struct OfWeights {
  constexpr Expr operator()(Expr x) const {
    auto w = weight("w", 3, width(x));
    return x * (transpose(w) * w) + x * transpose(w) * weight("v", 3, width(x));
  }
};
}  // namespace

TEST_SUITE_BEGIN("ops/transpose");

TEST_CASE_TEMPLATE_DEFINE("derivatives of every order", T, derivatives) {
  static constexpr test::OnTokens<T> model{6}, wide{16};
  test::check_op<model>({.step = 0.01});
  test::check_model<wide>();
  CHECK(test::distance_to_reference<wide, float>() < 1e-4);
}
TEST_CASE_TEMPLATE_INVOKE(derivatives, OverRows, OfWeights);

TEST_CASE("by hand") {
  static constexpr auto gram = [] {
    auto x = input("x", rows_of(Axis::batch, 2));
    return transpose(x) * x;
  };
  Evaluation<gram> run(Rows{.batch = 3});
  std::ranges::copy(std::array{1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, run.input("x").begin());
  run.forward();
  const std::vector<double> expected{35, 44, 44, 56};
  CHECK(std::equal(expected.begin(), expected.end(), run.output().begin()));
}

TEST_SUITE_END();
