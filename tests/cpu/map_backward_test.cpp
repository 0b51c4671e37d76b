// SPDX-License-Identifier: MIT
#include <simplx/cpu/map_backward.hpp>

#include "support.hpp"

#include <simplx/ops/reduce.hpp>

using namespace simplx;

namespace {
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

TEST_SUITE_END();
