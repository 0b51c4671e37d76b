// SPDX-License-Identifier: MIT
#include <simplx/core/expr.hpp>

#include "core/built.hpp"
#include "support.hpp"

using namespace simplx;
using test::Built;

TEST_SUITE_BEGIN("core/expr");

TEST_CASE("numbers become literals, leaves know their shapes and lines") {
  Built b{2.0 * input("x", rows_of(Axis::tokens, 4))};
  const int line = __LINE__ - 1;
  CHECK(b.root.shape() == rows_of(Axis::tokens, 4));
  CHECK(b.root.node->arguments[0]->kind == Kind::number);
  CHECK(b.root.node->arguments[0]->attributes.reals[0] == 2);
  CHECK(b.root.node->where.line == line);
  CHECK(std::string(b.root.node->where.file).ends_with("expr_test.cpp"));
}

TEST_CASE("matrices decay, rows and numbers do not; only variables want a gradient") {
  Built b{input("x", rows_of(Axis::tokens, 4)) * weight("w", 4, 4) + vector("b", 4) * scalar("s")};
  const Node* sum = b.root.node;
  CHECK(sum->arguments[0]->arguments[1]->decays);
  CHECK(!sum->arguments[1]->arguments[0]->decays);
  CHECK(sum->arguments[1]->arguments[1]->rank == 0);
  CHECK(!sum->arguments[0]->arguments[0]->wanted);
  Built v{variable("x", fixed_shape(2, 2))};
  CHECK(v.root.node->wanted);
}

TEST_CASE("a size below 1 is a broken rule of what has it, and the one that is told of what follows") {
  const auto sizes = [](const Expr& made, Index rows, Index cols) {
    Built b{made};
    CHECK(b.root.node->rule == Tag("sizes"));
    CHECK(b.root.node->left == rows);
    CHECK(b.root.node->right == cols);
  };
  sizes(input("x", rows_of(Axis::tokens, 4)) * weight("w", 4, -3), 4, -3);
  sizes(input("x", rows_of(Axis::tokens, 0)), 1, 0);
  sizes(variable("x", fixed_shape(0, 2)), 0, 2);
  sizes(vector("v", 0), 1, 0);
  sizes(fixed("f", -1, 2, zeros), -1, 2);
  Built least{weight("w", 1, 1)};
  CHECK(least.root.node->kind == Kind::parameter);
}

TEST_CASE("x * W is the matrix product for matrices, elementwise for rows and numbers") {
  const auto op_of_product = [](Expr a, Expr b) {
    Built product{a * b};
    return product.root.node->op;
  };
  const auto x = [] { return input("x", rows_of(Axis::tokens, 4)); };
  CHECK(op_of_product(x(), weight("w", 4, 4)) == Tag("matmul"));
  CHECK(op_of_product(x(), vector("v", 4)) == Tag("multiply"));
  CHECK(op_of_product(scalar("s"), weight("w", 4, 4)) == Tag("multiply"));
  CHECK(op_of_product(vector("v", 4), weight("w", 4, 2)) == Tag("matmul"));
  CHECK(op_of_product(x(), transpose(weight("w", 7, 4))) == Tag("matmul"));
}

TEST_SUITE_END();
