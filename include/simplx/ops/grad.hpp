// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/grad.hpp
/// grad(y, x): a derivative as an expression of the model, made by a walk from y back to x while the compiler
/// evaluates the model. What it returns is differentiated, fused and planned like everything else:
///
///     auto u = network(x);                                   // (rows, 1)
///     auto residual = grad(grad(u, x), x) + sin(u);          // a differential equation as a loss

#include <simplx/ops/reduce.hpp>
#include <simplx/ops/transpose.hpp>

namespace simplx::inline SIMPLX_TARGET {

SIMPLX_RULE("grad", (possible<left, right>),
            "grad(y, x) meets an op whose pull-back is no expression (left number: the line that made it): attention, "
            "stacks, lookups, cross-entropy, dropout, rotary positions, rows of sequences, batched products and maxima "
            "are differentiated by the reverse sweep only")

namespace detail {

/// The adjoint of an operand that an elementwise op spread: summed over the rows or columns along which it did.
constexpr Term gathered(const Term& adjoint, const Node* node, const Shape& to) {
  const Shape& from = node->shape;
  if (node->kind != Kind::map || from == to) return adjoint;
  const bool over_columns = to.cols == 1 && from.cols > 1;
  const bool over_rows = to.is_fixed() && to.rows == 1 && !(from.is_fixed() && from.rows == 1);
  const Over over = !over_columns ? Over::rows : over_rows ? Over::all : Over::columns;
  return adjoint.is(0) ? adjoint : Term(sum(whole(adjoint, node), over));
}

}  // namespace detail

/// The derivative of the sum of y's elements with respect to x, which may be any expression that y uses.
///
/// Shapes  as x; zero where y does not depend on x
/// Errors  does not compile if an op between them has no pull-back as an expression: rule "grad"
/// Cost    evaluated as written; nodes of a constant evaluation: about three for each node between x and y
constexpr Expr grad(Expr y, Expr x) {
  if (y.node->kind == Kind::error) return y;
  int count = 0;
  detail::postorder(y.node, [&](Node* node) { node->index = count++; });
  Node** nodes = new Node*[static_cast<std::size_t>(count)];
  bool* depends = new bool[static_cast<std::size_t>(count)]{};
  Term* adjoint = new Term[static_cast<std::size_t>(count)]{};
  int target = x.node->index;  // unvisited if y does not use x
  detail::clear_marks(y.node);
  count = 0;
  detail::postorder(y.node, [&](Node* node) {
    nodes[count] = node;
    node->index = count++;
    depends[node->index] = node == x.node;
    const bool constant = node->stops && !node->block;  // frozen layers stop only what nobody asked for before
    for (int i = 0; i < node->argument_count && !constant; ++i) {
      depends[node->index] |= depends[node->arguments[i]->index];
    }
  });
  int(*arguments)[max_arguments] = new int[static_cast<std::size_t>(count)][max_arguments];
  for (int n = 0; n < count; ++n) {
    for (int i = 0; i < nodes[n]->argument_count; ++i) arguments[n][i] = nodes[n]->arguments[i]->index;
  }
  detail::clear_marks(y.node);

  const Node* obstacle = nullptr;
  adjoint[count - 1] = 1;
  for (int n = count - 1; n > target && target >= 0 && !obstacle; --n) {
    if (!depends[n] || adjoint[n].is(0)) continue;
    const Node* node = nodes[n];
    if (!node->derivable) obstacle = node;
    for (int i = 0; i < node->argument_count && !obstacle; ++i) {
      const int argument = arguments[n][i];
      if (!depends[argument]) continue;
      const Term part = node->derive(node, i, adjoint[n]);
      adjoint[argument] = adjoint[argument] + detail::gathered(part, node, nodes[argument]->shape);
    }
  }
  const Term result = target >= 0 ? adjoint[target] : Term(0);
  delete[] nodes;
  delete[] depends;
  delete[] adjoint;
  delete[] arguments;
  if (target < 0) {  // nothing connects y and x: a node that is never read lets both be freed together
    Node* hub = detail::new_node();
    detail::use(hub, y.node), detail::use(hub, x.node);
  }
  if (obstacle) return refuse("grad", At(x, obstacle->where), obstacle->where.line);
  return result.node && result.node->shape == x.shape() ? Expr{result.node} : spread(result.operand(), x);
}

}  // namespace simplx
