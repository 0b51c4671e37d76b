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
inline constexpr test::OnTokens<Everything> wide{19}, vectors{16}, lone{1};
}  // namespace

TEST_SUITE_BEGIN("cpu/map_backward");

TEST_CASE("gradients of every spread, with and without elements left at the end of a row, in an arena full of noise") {
  test::check_model<wide>();
  test::check_model<vectors>();
  test::check_model<lone>();
  CHECK(test::distance_to_reference<wide, float>() < 1e-4);
}

TEST_SUITE_END();
