// SPDX-License-Identifier: MIT
#include <simplx/core/view.hpp>

#include <simplx/ops/elementwise.hpp>
#include <simplx/ops/matmul.hpp>

#include <doctest/doctest.h>

using namespace simplx;

TEST_CASE("core/view: what a graph is called and counts, without its type") {
  static constexpr auto model = [] {
    struct Results {
      Expr sum, product;
    };
    auto x = variable("x", rows_of(Axis::batch, 4)), y = input("y", rows_of(Axis::batch, 4));
    return Results{x + y, x * weight("w", 4, 3)};
  };
  using G = GraphOf<model>;
  const GraphView& view = view_of<G>;
  CHECK(view.count == G::count);
  CHECK(view.parameters == 16);  // twelve, rounded up to a vector
  CHECK(view.constants == 0);

  const int x = view.input_node("x"), y = view.input_node("y");
  CHECK(view.is_input(x));
  CHECK(view.info[x].shape == rows_of(Axis::batch, 4));
  CHECK((view.wanted[x] && !view.wanted[y]));
  CHECK(view.input[x] + view.input[y] == 1);  // numbers 0 and 1
  CHECK(view.input_node("w") == -1);          // a parameter
  CHECK(view.input_node("z") == -1);

  CHECK(view.info[view.result_node(0)].shape.cols == 4);
  CHECK(view.info[view.result_node(1)].shape.cols == 3);
  CHECK(view.result_node(2) == -1);
  CHECK(!view.is_input(view.result_node(0)));
}
