// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/term.hpp
/// Term: the scalar over which an op's rules give expressions again, so that derivatives can be part of a model.
///
/// A rule such as `g * y` runs over numbers, vectors, dual numbers and formulas; over terms it makes nodes. Numbers
/// stay numbers as long as possible: products with 0 and 1 and sums with 0 make no node.

#include <simplx/core/op.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// A number or an expression; its products are elementwise.
struct Term {
  Node* node = nullptr;
  double number = 0;

  constexpr Term() = default;
  SIMPLX_HD constexpr Term(double value) : number(value) {}
  constexpr explicit Term(Expr x) : node(x.node) {}

  constexpr bool is(double value) const { return !node && number == value; }
  constexpr At operand() const { return node ? At(Expr{node}) : At(number); }

  // Here, as compilers instantiate the rule of an op, which calls these, as soon as a model uses it.
  friend constexpr Term operator+(const Term& a, const Term& b);
  friend constexpr Term operator-(const Term& a, const Term& b);
  friend constexpr Term operator*(const Term& a, const Term& b);
  friend constexpr Term operator/(const Term& a, const Term& b);
  friend constexpr Term operator-(const Term& a);
  friend constexpr Term operator>(const Term& a, const Term& b);
  friend constexpr Term max(const Term& a, const Term& b);
  friend constexpr Term min(const Term& a, const Term& b);
  friend constexpr Term select(const Term& condition, const Term& yes, const Term& no);
  friend constexpr Term exp(const Term& x);
  friend constexpr Term log(const Term& x);
  friend constexpr Term log1p(const Term& x);
  friend constexpr Term sin(const Term& x);
  friend constexpr Term cos(const Term& x);
  friend constexpr Term tanh(const Term& x);
  friend constexpr Term sigmoid(const Term& x);
  friend constexpr Term erf(const Term& x);
  friend constexpr Term sqrt(const Term& x);
  friend constexpr Term abs(const Term& x);
  friend constexpr Term pow(const Term& x, const Term& p);
};

namespace detail {

/// The pull-back of the incoming gradient to an argument, as an expression; each node carries that of its op.
template <Tag name, int count>
constexpr Term derive(const Node* node, int argument, const Term& gradient) {
  using Op = op<name>;
  if constexpr (requires { Op::derive(node, argument, gradient); }) {
    return Op::derive(node, argument, gradient);
  } else {  // a map: Node::derive of others is null
    const auto operand = [&](int i) { return Term(Expr{node->arguments[i]}); };
    const Term result(Expr{const_cast<Node*>(node)});
    const auto pull = [&]<int to>(std::integral_constant<int, to>) {
      if constexpr (count == 1) {
        return Op::template d<to>(gradient, result, operand(0));
      } else if constexpr (count == 2) {
        return Op::template d<to>(gradient, result, operand(0), operand(1));
      } else {
        return Op::template d<to>(gradient, result, operand(0), operand(1), operand(2));
      }
    };
    if constexpr (count > 1) {
      if (argument == 1) return pull(std::integral_constant<int, 1>{});
    }
    if constexpr (count > 2) {
      if (argument == 2) return pull(std::integral_constant<int, 2>{});
    }
    return pull(std::integral_constant<int, 0>{});
  }
}

}  // namespace detail
}  // namespace simplx
