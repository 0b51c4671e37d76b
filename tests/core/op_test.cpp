// SPDX-License-Identifier: MIT
#include <simplx/core/op.hpp>

#include "core/built.hpp"
#include "support.hpp"

using namespace simplx;
using test::Built;

TEST_SUITE_BEGIN("core/op");

TEST_CASE("a broken rule is recorded once, where it broke, and passes through what follows") {
  const auto model = [] {
    Expr x = input("x", rows_of(Axis::tokens, 4));
    Expr wrong = x * weight("w", 5, 6);
    return relu(wrong + 1.0) * weight("u", 6, 4);
  };
  Built b{model()};
  CHECK(b.root.node->kind == Kind::error);
  CHECK(b.root.node->rule == Tag("inner widths"));
  CHECK(b.root.node->left == 4);
  CHECK(b.root.node->right == 5);
}

TEST_CASE("a module refuses with a rule of its own, unless one was broken before") {
  Built own{refuse("frozen", weight("w", 3, 2), 7, 8)};
  CHECK(own.root.node->kind == Kind::error);
  CHECK(own.root.node->rule == Tag("frozen"));
  CHECK(own.root.node->left == 7);
  CHECK(own.root.node->right == 8);
  Built before{refuse("frozen", weight("w", 0, 2))};
  CHECK(before.root.node->rule == Tag("sizes"));
}

TEST_CASE("a node notes what the pull-back to each argument reads") {
  Built b{input("x", rows_of(Axis::tokens, 4)) * weight("w", 4, 6)};
  CHECK(b.root.node->op == Tag("matmul"));
  CHECK(b.root.node->reads[0] == 0b10);  // dx = dy W^T
  CHECK(b.root.node->reads[1] == 0b01);  // dW = x^T dy
  CHECK(b.root.node->reads_output == 0);
  Built tanh_of{tanh(input("x", rows_of(Axis::tokens, 4)))};  // dx = dy (1 - y^2)
  CHECK(tanh_of.root.node->reads[0] == 0);
  CHECK(tanh_of.root.node->reads_output == 1);
}

TEST_SUITE_END();
