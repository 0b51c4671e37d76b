// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/elementwise.hpp
/// Elementwise ops: arithmetic with broadcast, ReLU, probes.
///
/// An op's rules are written once, over any scalar or vector type: `f` is the value, `d<i>` the pull-back of
/// the incoming gradient g to operand i, given the result y and the operands. What a pull-back does not
/// declare that it reads is passed as zero and never kept. The derivative of ReLU at 0 is 0.

#include <simplx/core/expr.hpp>
#include <simplx/core/rules.hpp>
#include <simplx/cpu/simd.hpp>

namespace simplx {

/// Base of elementwise ops: operands of one shape, or one row, one column or one number spread over it.
struct elementwise {
  static constexpr Kind kind = Kind::map;
  static constexpr bool needs_inputs = false;  ///< pull-backs read the operands
  static constexpr bool needs_output = false;  ///< pull-backs read the result
  static constexpr unsigned char passes = 0;   ///< bit i: the pull-back to operand i is g itself

  template <class... Shapes>
  static constexpr Checked shape(const Attributes&, Shapes... shapes) {
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
        checked = s.is_fixed() ? Checked("equal rows", s.rows, result.rows)
                               : Checked("equal rows", static_cast<Index>(s.axis), static_cast<Index>(result.axis));
      }
    };
    (check(shapes), ...);
    return checked;
  }
};

template <>
struct op<"add"> : elementwise {
  static constexpr unsigned char passes = 0b11;
  static constexpr auto f(auto a, auto b) { return a + b; }
  template <int i>
  static constexpr auto d(auto g, auto, auto, auto) {
    return g;
  }
};

template <>
struct op<"subtract"> : elementwise {
  static constexpr unsigned char passes = 0b01;
  static constexpr auto f(auto a, auto b) { return a - b; }
  template <int i>
  static constexpr auto d(auto g, auto, auto, auto) {
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
  static constexpr auto f(auto a, auto b) { return a * b; }
  template <int i>
  static constexpr auto d(auto g, auto, auto a, auto b) {
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
  static constexpr auto f(auto a, auto b) { return a / b; }
  template <int i>
  static constexpr auto d(auto g, auto y, auto, auto b) {
    if constexpr (i == 0) {
      return g / b;
    } else {
      return -g * y / b;
    }
  }
};

template <>
struct op<"negate"> : elementwise {
  static constexpr auto f(auto a) { return -a; }
  template <int i>
  static constexpr auto d(auto g, auto, auto) {
    return -g;
  }
};

template <>
struct op<"relu"> : elementwise {
  static constexpr bool needs_output = true;
  static constexpr auto f(auto a) { return max(a, decltype(a){}); }
  template <int i>
  static constexpr auto d(auto g, auto y, auto) {
    return select(y > decltype(y){}, g, decltype(g){});
  }
};

/// Copies: a result of the model, a value that stays readable.
struct identity_op : elementwise {
  static constexpr unsigned char passes = 0b1;
  static constexpr auto f(auto a) { return a; }
  template <int i>
  static constexpr auto d(auto g, auto, auto) {
    return g;
  }
};
template <>
struct op<"output"> : identity_op {};
template <>
struct op<"probe"> : identity_op {};

constexpr Expr operator+(At a, At b) { return apply<"add">({}, a, b); }
constexpr Expr operator-(At a, At b) { return apply<"subtract">({}, a, b); }
constexpr Expr operator/(At a, At b) { return apply<"divide">({}, a, b); }
constexpr Expr operator-(At a) { return apply<"negate">({}, a); }

/// The elementwise product; `x * y` is this too, unless y is a matrix: then it is the matrix product.
constexpr Expr multiply(At a, At b) { return apply<"multiply">({}, a, b); }

/// max(x, 0).
constexpr Expr relu(At x) { return apply<"relu">({}, x); }

/// Keeps a value and its gradient readable under a name; nothing is paid where there is no probe.
///
/// Cost    the columns of x twice in the kept region, one copy of its gradient
constexpr Expr probe(const char* name, At x) {
  Expr result = apply<"probe">({}, x);
  result.node->name = name;
  result.node->observed = true;
  return result;
}

}  // namespace simplx
