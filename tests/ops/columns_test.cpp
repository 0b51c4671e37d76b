// SPDX-License-Identifier: MIT
#include <simplx/ops/columns.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
struct Slices {  // overlapping slices, and one that is used twice
  constexpr Expr operator()(Expr x) const {
    auto y = x * vector("row", width(x));
    auto a = slice_columns(y, 0, 7), b = slice_columns(y, 5, 7);
    return a * b + b;
  }
};
struct Together {
  constexpr Expr operator()(Expr x) const {
    auto y = x * vector("row", width(x));
    return concatenate(y, x, y * y) * vector("all", 3 * width(x));
  }
};
struct Gate {
  constexpr Expr operator()(Expr x) const {
    const auto [value, gate] = split_columns(x * weight("w", width(x), 6));
    return value * sigmoid(gate);
  }
};
struct OfWeights {
  constexpr Expr operator()(Expr x) const {
    auto w = weight("w", width(x), 6);
    return x * concatenate(slice_columns(w, 2, 3), slice_columns(w, 0, 1));
  }
};
}  // namespace

TEST_SUITE_BEGIN("ops/columns");

TEST_CASE_TEMPLATE_DEFINE("derivatives of every order", T, derivatives) {
  static constexpr test::OnTokens<T> model{19};
  test::check_op<model>();
  CHECK(test::distance_to_reference<model, float>() < 1e-5);
}
TEST_CASE_TEMPLATE_INVOKE(derivatives, Slices, Together, Gate, OfWeights);

TEST_CASE("by hand") {
  static constexpr auto swapped = [] {
    auto x = input("x", rows_of(Axis::batch, 4));
    return concatenate(slice_columns(x, 2, 2), slice_columns(x, 0, 2));
  };
  Evaluation<swapped> run(Rows{.batch = 2});
  for (int i = 0; i < 8; ++i) run.input("x")[static_cast<std::size_t>(i)] = i;
  run.forward();
  const std::vector<double> expected{2, 3, 0, 1, 6, 7, 4, 5};
  CHECK(std::equal(expected.begin(), expected.end(), run.output().begin()));
}

TEST_SUITE_END();
