// SPDX-License-Identifier: MIT
#include <simplx/ops/repeat.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
struct Heads {  // one number for each of four heads, used twice, and rows repeated themselves
  constexpr Expr operator()(Expr x) const {
    auto scale = vector("scale", 4);
    x = x * repeat_columns(scale, width(x) / 4) + square(x) * repeat_columns(scale, width(x) / 4);
    return x + repeat_columns(slice_columns(x, 0, 3), width(x) / 3) * scale_of(x);
  }
  static constexpr Expr scale_of(Expr x) { return repeat_columns(vector("all", 1), width(x)); }
};
inline constexpr test::OnTokens<Heads> heads{12};
struct Blocks {
  constexpr Expr operator()(Expr x) const {
    const Expr y = slice_columns(x, 0, 4);
    return repeat_columns(square(y) + sum_of_repeated(square(x), 3, 2), 3, 2) * x + repeat_columns(y, 3, 4);
  }
};
inline constexpr test::OnTokens<Blocks> blocks{12};
inline constexpr auto pairs = [] { return repeat_columns(input("x", rows_of(Axis::batch, 4)), 3, 2); };
inline constexpr auto sums = [] { return sum_of_repeated(input("x", rows_of(Axis::batch, 12)), 3, 2); };
inline constexpr auto thrice = [] { return repeat_columns(input("x", rows_of(Axis::batch, 2)), 3); };
}  // namespace

TEST_SUITE_BEGIN("ops/repeat");

TEST_CASE("derivatives of every order") {
  test::check_op<heads>();
  test::check_op<blocks>();
  CHECK(test::distance_to_reference<heads, float>() < 1e-5);
}

TEST_CASE("copies stand beside each other") {
  Evaluation<thrice> run(Rows{.batch = 2});
  for (int i = 0; i < 4; ++i) run.input("x")[static_cast<std::size_t>(i)] = i;
  run.forward();
  const std::vector<double> expected{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3};
  CHECK(std::equal(expected.begin(), expected.end(), run.output().begin()));
}

TEST_CASE("copies of blocks stand beside each other") {
  Evaluation<pairs> run(Rows{.batch = 2});
  for (int i = 0; i < 8; ++i) run.input("x")[static_cast<std::size_t>(i)] = i;
  run.forward();
  Evaluation<sums> back(Rows{.batch = 2});
  std::ranges::copy(run.output(), back.input("x").begin());
  back.forward();
  for (int i = 0; i < 8; ++i) CHECK(back.output()[static_cast<std::size_t>(i)] == 3 * i);
  const std::vector<double> expected{0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 4, 5, 4, 5, 4, 5, 6, 7, 6, 7, 6, 7};
  CHECK(std::equal(expected.begin(), expected.end(), run.output().begin()));
}

TEST_SUITE_END();
