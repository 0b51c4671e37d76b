// SPDX-License-Identifier: MIT
#include <simplx/core/rows_apart.hpp>

#include <simplx/core/view.hpp>
#include <simplx/ops/embedding.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/reduce.hpp>
#include <simplx/ops/rows.hpp>

#include <doctest/doctest.h>

using namespace simplx;

/// A lookup that somebody wrote for himself.
template <> struct simplx::op<"own_lookup"> : op<"embedding"> {};

namespace {
constexpr Expr mapped(Axis axis) { return input("x", rows_of(axis, 4)) * weight("w", 4, 2); }
struct Both {
  Expr apart, centred;
};
inline constexpr auto both = [] {
  const Expr y = mapped(Axis::batch);
  return Both{square(y), y - mean(y, Over::rows)};
};
inline constexpr auto shifted_tokens = [] { return shift(mapped(Axis::tokens), 1); };
inline constexpr auto shifted_rows = [] { return shift(mapped(Axis::batch), 1); };
inline constexpr auto gathered_rows = [] { return gather(mapped(Axis::batch), indices("of", Axis::batch)); };
inline constexpr auto looked_up_rows = [] {
  return apply<"own_lookup">({}, mapped(Axis::batch), indices("of", Axis::batch));
};
inline constexpr auto gathered_elsewhere = [] { return gather(mapped(Axis::tokens), indices("of", Axis::batch)); };

template <auto const& model, Axis... axes>
constexpr bool apart = detail::keeps_rows_apart<GraphOf<model>, axes...>();
template <auto const& model, int k>
constexpr bool result_apart =
    detail::keeps_rows_apart<GraphOf<model>, Axis::batch>(view_of<GraphOf<model>>.result_node(k));
}  // namespace

TEST_SUITE_BEGIN("core/rows_apart");

TEST_CASE("rows of several results, of tokens, and rows that are gathered") {
  CHECK(!apart<both, Axis::batch>);
  CHECK(result_apart<both, 0>);
  CHECK(!result_apart<both, 1>);
  CHECK(apart<both, Axis::tokens>);  // of which there are none
  CHECK(apart<shifted_tokens, Axis::tokens>);  // by whole sequences
  CHECK(!apart<shifted_rows, Axis::batch>);
  CHECK(!apart<gathered_rows, Axis::batch>);
  CHECK(!apart<looked_up_rows, Axis::batch>);
  CHECK(apart<gathered_elsewhere, Axis::batch>);
}

TEST_SUITE_END();
