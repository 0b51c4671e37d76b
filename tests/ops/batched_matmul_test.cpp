// SPDX-License-Identifier: MIT
#include <simplx/ops/batched_matmul.hpp>

#include <simplx/ops/matmul.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
struct Batched {  // a row of 6 is a 2 x 3 matrix, times a 3 x 4 one
  constexpr Expr operator()(Expr x) const {
    auto a = x * weight("a", width(x), 6), b = x * weight("b", width(x), 12);
    return batched_matmul(a, b, 2, 3, 4) + batched_matmul(a, a, 2, 3, 2) * weight("c", 4, 8);
  }
};
inline constexpr test::OnTokens<Batched> batched{5};
inline constexpr auto product = [] {
  return batched_matmul(input("a", rows_of(Axis::batch, 2)), input("b", rows_of(Axis::batch, 2)), 2, 1, 2);
};
}  // namespace

TEST_SUITE_BEGIN("ops/batched_matmul");

TEST_CASE("derivatives of every order") {
  test::check_op<batched>();
  CHECK(test::distance_to_reference<batched, float>() < 1e-5);
}

TEST_CASE("an outer product for each row") {
  Evaluation<product> run(Rows{.batch = 1});
  std::ranges::copy(std::array{2.0, 3.0}, run.input("a").begin());
  std::ranges::copy(std::array{5.0, 7.0}, run.input("b").begin());
  run.forward();
  const std::vector<double> expected{10, 14, 15, 21};
  CHECK(std::equal(expected.begin(), expected.end(), run.output().begin()));
}

TEST_SUITE_END();
