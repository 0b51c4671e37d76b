// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/elementwise.hpp
/// Elementwise ops: arithmetic with broadcast, probes. Functions are in functions.hpp.
///
/// An op's rules are written once, over any scalar or vector type: `f` is the value, `d<i>` the pull-back of
/// the incoming gradient g to operand i, given the result y and the operands. What a pull-back does not
/// declare that it reads is never kept and passed as NaN, so that a forgotten declaration shows in the gradient.

#include <simplx/core/op.hpp>
#include <simplx/core/rules.hpp>
#include <simplx/cpu/simd.hpp>
#include <simplx/ops/term.hpp>

namespace simplx::inline SIMPLX_TARGET {
SIMPLX_HD_BEGIN

/// Base of elementwise ops: operands of one shape, or one row, one column or one number spread over it.
struct elementwise {
  static constexpr Kind kind = Kind::map;
  static constexpr bool needs_inputs = false;  ///< pull-backs read the operands
  static constexpr bool needs_output = false;  ///< pull-backs read the result
  static constexpr unsigned char passes = 0;   ///< bit i: the pull-back to operand i is g itself
  static constexpr bool costly = false;        ///< as exp is: many times the cost of storing its result

  template <class... Shapes>
  static constexpr Checked shape(const Attributes&, Shapes... shapes) {
    static_assert(sizeof...(shapes) <= 3, "simplx: an elementwise op has at most three operands; make it of two ops");
    Shape result = fixed_shape(1, 1);
    const auto widen = [&](const Shape& s) {
      result.cols = std::max(result.cols, s.cols);
      if (result.is_fixed() && !s.is_fixed()) {
        result.axis = s.axis;
        result.rows = 0;
      } else if (result.is_fixed()) {
        result.rows = std::max(result.rows, s.rows);
      }
    };
    (widen(shapes), ...);
    Checked checked(result);
    const auto check = [&](const Shape& s) {
      if (!checked.rule.empty()) return;
      if (s.cols != 1 && s.cols != result.cols) {
        checked = Checked("equal widths", s.cols, result.cols);
      } else if (s.is_fixed() ? s.rows != 1 && s.rows != result.rows : s.axis != result.axis) {
        checked = unequal_rows(s, result);
      }
    };
    (check(shapes), ...);
    return checked;
  }
};

template <>
struct op<"add"> : elementwise {
  static constexpr unsigned char passes = 0b11;
  SIMPLX_HD static constexpr auto f(auto a, auto b) { return a + b; }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto, auto) {
    return g;
  }
};

template <>
struct op<"subtract"> : elementwise {
  static constexpr unsigned char passes = 0b01;
  SIMPLX_HD static constexpr auto f(auto a, auto b) { return a - b; }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto, auto) {
    if constexpr (i == 0) {
      return g;
    } else {
      return -g;
    }
  }
};

template <>
struct op<"multiply"> : elementwise {
  static constexpr bool reads(int to, int operand) { return to != operand; }
  SIMPLX_HD static constexpr auto f(auto a, auto b) { return a * b; }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto a, auto b) {
    if constexpr (i == 0) {
      return g * b;
    } else {
      return g * a;
    }
  }
};

template <>
struct op<"divide"> : elementwise {
  static constexpr bool needs_output = true;
  static constexpr bool reads(int, int operand) { return operand == 1; }
  SIMPLX_HD static constexpr auto f(auto a, auto b) { return a / b; }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto y, auto, auto b) {
    if constexpr (i == 0) {
      return g / b;
    } else {
      return -(g / b) * y;
    }
  }
};

template <>
struct op<"negate"> : elementwise {
  SIMPLX_HD static constexpr auto f(auto a) { return -a; }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto) {
    return -g;
  }
};

/// Copies: a result of the model, a value that stays readable.
struct identity_op : elementwise {
  static constexpr unsigned char passes = 0b1;
  SIMPLX_HD static constexpr auto f(auto a) { return a; }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto) {
    return g;
  }
};
template <>
struct op<"output"> : identity_op {};
template <>
struct op<"probe"> : identity_op {};

/// The first operand, spread over the shape of the second, whose values are not read.
template <>
struct op<"spread"> : elementwise {
  SIMPLX_HD static constexpr auto f(auto a, auto) { return a; }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto, auto) {
    if constexpr (i == 0) {
      return g;
    } else {
      return literal<decltype(g)>(0);
    }
  }
};

/// Element by element, one row, one column or one number spread over the rest; likewise a - b and a / b.
///
/// Shapes  operands (rows, C), (1, C), (rows, 1) or (1, 1) -> (rows, C), rows static or run-time
/// Errors  does not compile otherwise: rules "equal widths", "equal axes" and "equal rows"
constexpr Expr operator+(At a, At b) { return apply<"add">({}, a, b); }
constexpr Expr operator-(At a, At b) { return apply<"subtract">({}, a, b); }
/// A divisor that is spread over rows, columns or everything is inverted first: one division for each of its elements.
constexpr Expr operator/(At a, At b) {
  const Checked whole = elementwise::shape({}, a.shape(), b.shape());
  if (!whole.rule.empty() || whole.shape == b.shape()) return apply<"divide">({}, a, b);
  return apply<"multiply">({}, a, At(apply<"divide">({}, At(1.0), b)));
}
constexpr Expr operator/(At a, double b) {
  if (a.shape() == fixed_shape(1, 1)) return apply<"divide">({}, a, At(b));
  return apply<"multiply">({}, a, At(1.0 / b));
}
constexpr Expr operator-(At a) { return apply<"negate">({}, a); }
constexpr Expr& operator+=(Expr& x, At y) { return x = x + y; }
constexpr Expr& operator-=(Expr& x, At y) { return x = x - y; }
constexpr Expr& operator/=(Expr& x, At y) { return x = x / y; }

/// x repeated until it has the shape of `like`: a number, a row or a column.
constexpr Expr spread(At x, At like) { return apply<"spread">({}, x, like); }

namespace detail {
/// A gradient with all the elements of the node's value, for ops that need every one of them.
constexpr At whole(const Term& gradient, const Node* node) {
  const bool complete = gradient.node && gradient.node->shape == node->shape;
  return complete ? gradient.operand() : At(spread(gradient.operand(), At(Expr{const_cast<Node*>(node)})));
}
constexpr At argument(const Node* node, int i) { return Expr{node->arguments[i]}; }
}  // namespace detail

constexpr Term operator+(const Term& a, const Term& b) {
  if (!a.node && !b.node) return a.number + b.number;
  if (a.is(0) || b.is(0)) return a.is(0) ? b : a;
  return Term(apply<"add">({}, a.operand(), b.operand()));
}
constexpr Term operator-(const Term& a, const Term& b) {
  if (!a.node && !b.node) return a.number - b.number;
  if (a.is(0) || b.is(0)) return a.is(0) ? -b : a;
  return Term(apply<"subtract">({}, a.operand(), b.operand()));
}
constexpr Term operator*(const Term& a, const Term& b) {
  if (!a.node && !b.node) return a.number * b.number;
  if (a.is(0) || b.is(0)) return 0;
  if (a.is(1) || b.is(1)) return a.is(1) ? b : a;
  return Term(apply<"multiply">({}, a.operand(), b.operand()));
}
constexpr Term operator/(const Term& a, const Term& b) {
  if (!a.node && !b.node) return a.number / b.number;
  if (a.is(0) || b.is(1)) return a;
  return Term(apply<"divide">({}, a.operand(), b.operand()));
}
constexpr Term operator-(const Term& a) { return a.node ? Term(apply<"negate">({}, a.operand())) : Term(-a.number); }

/// The elementwise product; `x * y` is this too, unless y is a matrix (static rows, of one column too): then it is the
/// matrix product.
///
/// Shapes  as a + b: a column (rows, 1) scales rows, static or run-time
/// Errors  as a + b
constexpr Expr multiply(At a, At b) { return apply<"multiply">({}, a, b); }

/// Keeps a value and its gradient readable under a name; nothing is paid where there is no probe.
///
/// Cost    the columns of x twice in the kept region, one copy of its gradient
constexpr Expr probe(const char* name, At x) {
  Expr result = apply<"probe">({}, x);
  result.node->name = name;
  result.node->observed = true;
  return result;
}

SIMPLX_HD_END
}  // namespace simplx
