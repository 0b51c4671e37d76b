// SPDX-License-Identifier: MIT
#include <simplx/ops/term.hpp>

#include <simplx/core/walk.hpp>
#include <simplx/ops/functions.hpp>

#include <doctest/doctest.h>

using namespace simplx;

namespace {

/// What f makes of an expression x and of numbers: a number, x itself, or so many nodes with an op on top.
struct Made {
  bool is_node = false;
  double number = 0;
  Tag op{};
  bool is_x = false;
  int nodes = 0;
};
template <class F>
constexpr Made make(F f) {
  Node* x = detail::leaf(Kind::input, fixed_shape(1, 1), {});
  const Term result = f(Term(Expr{x}));
  Made made{.is_node = result.node != nullptr, .number = result.number, .is_x = result.node == x};
  if (result.node) {
    made.op = result.node->op;
    detail::postorder(result.node, [&](Node* node) { node->index = made.nodes++; });
  }
  detail::release(x);
  return made;
}

constexpr bool is_number(const Made& made, double value) { return !made.is_node && made.number == value; }

// Numbers stay numbers, whatever is computed with them.
static_assert(is_number(make([](Term) { return Term(2) * 3 + 1 - Term(8) / 4; }), 5));
static_assert(is_number(make([](Term) { return -Term(2); }), -2));
static_assert(is_number(make([](Term) { return Term(); }), 0));

// Products with 0 and 1, sums with 0 and a division by 1 make no node.
static_assert(is_number(make([](Term x) { return x * 0; }), 0) && is_number(make([](Term x) { return 0 * x; }), 0));
static_assert(is_number(make([](Term x) { return 0 / x; }), 0));
static_assert(make([](Term x) { return x * 1; }).is_x && make([](Term x) { return 1 * x; }).is_x);
static_assert(make([](Term x) { return x + 0; }).is_x && make([](Term x) { return 0 + x; }).is_x);
static_assert(make([](Term x) { return x - 0; }).is_x && make([](Term x) { return x / 1; }).is_x);

// Everything else makes one node of the op of that name, beside literals.
constexpr bool makes(const Made& made, Tag op, int nodes) {
  return made.is_node && made.op == op && made.nodes == nodes;
}
static_assert(makes(make([](Term x) { return 0 - x; }), "negate", 2));
static_assert(makes(make([](Term x) { return x - 2; }), "subtract", 3));
static_assert(makes(make([](Term x) { return x + x; }), "add", 2));
static_assert(makes(make([](Term x) { return x * x; }), "multiply", 2));
static_assert(makes(make([](Term x) { return 1 / x; }), "divide", 3));
static_assert(makes(make([](Term x) { return exp(x); }), "exp", 2) &&
              makes(make([](Term x) { return erf(x); }), "erf", 2));
static_assert(makes(make([](Term x) { return max(x, 2); }), "max", 3) &&
              makes(make([](Term x) { return min(x, 2); }), "min", 3));
static_assert(makes(make([](Term x) { return pow(x, 2); }), "pow", 3));
static_assert(makes(make([](Term x) { return select(x > 0, x, 2); }), "select", 5));  // x, 0, x > 0, 2 and itself

// A rule gives expressions: the pull-back of tanh, g (1 - y^2), takes a product, a difference and another product.
static_assert(makes(make([](Term x) { return op<"tanh">::d<0>(Term(2), x, x); }), "multiply", 6));

// The op of a node is asked for its pull-back through the node, without its type.
constexpr Tag derived(int argument) {
  Node* x = detail::leaf(Kind::input, fixed_shape(1, 1), {});
  Node* y = apply<"divide">({}, At(Expr{x}), At(3.0)).node;
  const Term part = y->derive(y, argument, Term(1));
  const Tag made = part.node->op;
  detail::release(x);
  return made;
}
static_assert(derived(0) == Tag("divide") && derived(1) == Tag("multiply"));  // g / b, -(g / b) y

}  // namespace

TEST_CASE("ops/term: the same at run time, where a debugger can look") {
  CHECK(is_number(make([](Term) { return Term(2) * 3; }), 6));
  CHECK(make([](Term x) { return x * 1; }).is_x);
  CHECK(makes(make([](Term x) { return sigmoid(x); }), "sigmoid", 2));
  CHECK(derived(0) == Tag("divide"));
}
