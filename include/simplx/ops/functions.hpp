// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/functions.hpp
/// Elementary functions, element by element:
///
///     relu exp log log1p sin cos tanh sigmoid softplus erf sqrt rsqrt square pow abs max min clamp a > b select
///
/// Where a function has a kink the derivative is 0 (relu, abs) or shared (max and min of equal numbers: one half each).

#include <simplx/cpu/math.hpp>
#include <simplx/ops/elementwise.hpp>

namespace simplx::inline SIMPLX_TARGET {
SIMPLX_HD_BEGIN

template <>
struct op<"relu"> : elementwise {
  static constexpr bool needs_output = true;
  SIMPLX_HD static constexpr auto f(auto a) {
    if constexpr (requires { a.tangent; }) {
      return a > decltype(a){} ? a : decltype(a)(f(a.value));  // where max of a dual number would share a kink
    } else {
      return max(decltype(a){}, a);  // in this order NaN stays NaN
    }
  }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto y, auto) {
    return select(y > decltype(y){}, g, decltype(g){});
  }
};

template <>
struct op<"exp"> : elementwise {
  static constexpr bool costly = true;
  static constexpr bool needs_output = true;
  SIMPLX_HD static constexpr auto f(auto x) { return exp(x); }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto y, auto) { return g * y; }
};

template <>
struct op<"log"> : elementwise {
  static constexpr bool costly = true;
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto x) { return log(x); }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x) { return g / x; }
};

template <>
struct op<"log1p"> : elementwise {
  static constexpr bool costly = true;
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto x) { return log1p(x); }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x) { return g / (literal<decltype(x)>(1) + x); }
};

template <>
struct op<"sin"> : elementwise {
  static constexpr bool costly = true;
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto x) { return sin(x); }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x) { return g * cos(x); }
};

template <>
struct op<"cos"> : elementwise {
  static constexpr bool costly = true;
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto x) { return cos(x); }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x) { return -g * sin(x); }
};

template <>
struct op<"tanh"> : elementwise {
  static constexpr bool costly = true;
  static constexpr bool needs_output = true;
  SIMPLX_HD static constexpr auto f(auto x) { return tanh(x); }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto y, auto) { return g * (literal<decltype(y)>(1) - y * y); }
};

template <>
struct op<"sigmoid"> : elementwise {
  static constexpr bool costly = true;
  static constexpr bool needs_output = true;
  SIMPLX_HD static constexpr auto f(auto x) { return sigmoid(x); }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto y, auto) { return g * y * (literal<decltype(y)>(1) - y); }
};

template <>
struct op<"softplus"> : elementwise {
  static constexpr bool costly = true;
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto x) {
    if constexpr (requires { x.tangent; }) {
      return decltype(x)(f(x.value), sigmoid(x.value) * x.tangent);  // max and abs have a kink, their sum has none
    } else {
      return max(literal<decltype(x)>(0), x) + log1p(exp(-abs(x)));
    }
  }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x) { return g * sigmoid(x); }
};

template <>
struct op<"erf"> : elementwise {
  static constexpr bool costly = true;
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto x) { return erf(x); }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x) {
    return g * literal<decltype(x)>(1.1283791670955126) * exp(-(x * x));  // 2 / sqrt(pi)
  }
};

template <>
struct op<"sqrt"> : elementwise {
  static constexpr bool needs_output = true;
  SIMPLX_HD static constexpr auto f(auto x) { return sqrt(x); }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto y, auto) { return literal<decltype(y)>(0.5) * g / y; }
};

template <>
struct op<"rsqrt"> : elementwise {
  static constexpr bool needs_output = true;
  SIMPLX_HD static constexpr auto f(auto x) { return literal<decltype(x)>(1) / sqrt(x); }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto y, auto) { return literal<decltype(y)>(-0.5) * g * y * y * y; }
};

template <>
struct op<"square"> : elementwise {
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto x) { return x * x; }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x) { return literal<decltype(x)>(2) * g * x; }
};

template <>
struct op<"abs"> : elementwise {
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto x) { return abs(x); }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x) {
    const auto zero = literal<decltype(x)>(0);
    return select(x > zero, g, select(zero > x, -g, zero));
  }
};

template <>
struct op<"pow"> : elementwise {
  static constexpr bool costly = true;
  static constexpr bool needs_output = true;
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto x, auto p) { return pow(x, p); }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto y, auto x, auto p) {
    const auto zero = literal<decltype(x)>(0), one = literal<decltype(x)>(1);
    if constexpr (i == 0) {
      const auto unless_zero = select(x > zero, x, select(zero > x, x, one));
      const auto base = select(p > zero, x, select(zero > p, x, unless_zero));  // x^0 does not depend on x, not at 0
      return g * p * pow(base, p - one);
    } else {
      return select(x > zero, g * y * log(x), zero);  // 0^p does not depend on p > 0
    }
  }
};

/// Of the larger (or smaller) of two operands; NaN if either is, where max(a, b) of vectors would be b.
template <bool larger>
struct extreme_op : elementwise {
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto a, auto b) {
    const auto extreme = [&] {
      if constexpr (larger) {
        return max(a, b);
      } else {
        return min(a, b);
      }
    }();
    if constexpr (requires { a == a; }) {
      return select(a == a, extreme, a);
    } else {
      return extreme;
    }
  }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto a, auto b) {
    const auto zero = literal<decltype(g)>(0), half = literal<decltype(g)>(0.5) * g;
    if constexpr (larger == (i == 0)) {
      return select(a > b, g, select(b > a, zero, half));
    } else {
      return select(b > a, g, select(a > b, zero, half));
    }
  }
};
template <>
struct op<"max"> : extreme_op<true> {};
template <>
struct op<"min"> : extreme_op<false> {};

template <>
struct op<"clamp"> : elementwise {
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto x, auto low, auto high) {
    const auto raised = select(low > x, low, x);
    return select(raised > high, high, raised);
  }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x, auto low, auto high) {
    const auto zero = literal<decltype(g)>(0);
    if constexpr (i == 0) {
      return select(x > high, zero, select(low > x, zero, g));
    } else if constexpr (i == 1) {
      return select(low > x, select(low > high, zero, g), zero);
    } else {
      return select(x > high, g, select(low > high, g, zero));
    }
  }
};

template <>
struct op<"greater"> : elementwise {
  SIMPLX_HD static constexpr auto f(auto a, auto b) {
    return select(a > b, literal<decltype(a)>(1), literal<decltype(a)>(0));
  }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto, auto) { return literal<decltype(g)>(0); }
};

template <>
struct op<"select"> : elementwise {
  static constexpr bool reads(int, int operand) { return operand == 0; }
  SIMPLX_HD static constexpr auto f(auto condition, auto yes, auto no) {
    return select(condition > literal<decltype(condition)>(0), yes, no);
  }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto condition, auto, auto) {
    const auto zero = literal<decltype(g)>(0);
    if constexpr (i == 0) {
      return zero;
    } else if constexpr (i == 1) {
      return select(condition > zero, g, zero);
    } else {
      return select(condition > zero, zero, g);
    }
  }
};

// The same functions of terms, which rules call.
constexpr Term exp(const Term& x) { return Term(apply<"exp">({}, x.operand())); }
constexpr Term log(const Term& x) { return Term(apply<"log">({}, x.operand())); }
constexpr Term log1p(const Term& x) { return Term(apply<"log1p">({}, x.operand())); }
constexpr Term sin(const Term& x) { return Term(apply<"sin">({}, x.operand())); }
constexpr Term cos(const Term& x) { return Term(apply<"cos">({}, x.operand())); }
constexpr Term tanh(const Term& x) { return Term(apply<"tanh">({}, x.operand())); }
constexpr Term sigmoid(const Term& x) { return Term(apply<"sigmoid">({}, x.operand())); }
constexpr Term erf(const Term& x) { return Term(apply<"erf">({}, x.operand())); }
constexpr Term sqrt(const Term& x) { return Term(apply<"sqrt">({}, x.operand())); }
constexpr Term abs(const Term& x) { return Term(apply<"abs">({}, x.operand())); }
constexpr Term max(const Term& a, const Term& b) { return Term(apply<"max">({}, a.operand(), b.operand())); }
constexpr Term min(const Term& a, const Term& b) { return Term(apply<"min">({}, a.operand(), b.operand())); }
constexpr Term pow(const Term& x, const Term& p) { return Term(apply<"pow">({}, x.operand(), p.operand())); }
constexpr Term operator>(const Term& a, const Term& b) {
  return Term(apply<"greater">({}, a.operand(), b.operand()));
}
constexpr Term select(const Term& condition, const Term& yes, const Term& no) {
  return Term(apply<"select">({}, condition.operand(), yes.operand(), no.operand()));
}

/// max(x, 0).
constexpr Expr relu(At x) { return apply<"relu">({}, x); }
constexpr Expr exp(At x) { return apply<"exp">({}, x); }
/// The natural logarithm.
constexpr Expr log(At x) { return apply<"log">({}, x); }
/// log(1 + x), accurate near 0.
constexpr Expr log1p(At x) { return apply<"log1p">({}, x); }
constexpr Expr sin(At x) { return apply<"sin">({}, x); }
constexpr Expr cos(At x) { return apply<"cos">({}, x); }
constexpr Expr tanh(At x) { return apply<"tanh">({}, x); }
/// 1 / (1 + exp(-x)).
constexpr Expr sigmoid(At x) { return apply<"sigmoid">({}, x); }
/// log(1 + exp(x)).
constexpr Expr softplus(At x) { return apply<"softplus">({}, x); }
/// The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.
constexpr Expr erf(At x) { return apply<"erf">({}, x); }
constexpr Expr sqrt(At x) { return apply<"sqrt">({}, x); }
/// 1 / sqrt(x).
constexpr Expr rsqrt(At x) { return apply<"rsqrt">({}, x); }
constexpr Expr square(At x) { return apply<"square">({}, x); }
/// x^p for x > 0, or any x if p is a whole number; the derivative with respect to p is for x >= 0.
constexpr Expr pow(At x, At p) { return apply<"pow">({}, x, p); }
constexpr Expr abs(At x) { return apply<"abs">({}, x); }
/// The larger of both (min: the smaller), NaN if either is; of equal numbers each has half the gradient.
///
/// Shapes  as a + b
/// Errors  as a + b
constexpr Expr max(At a, At b) { return apply<"max">({}, a, b); }
constexpr Expr min(At a, At b) { return apply<"min">({}, a, b); }
/// x limited to [low, high]; high where they are the wrong way round.
constexpr Expr clamp(At x, At low, At high) { return apply<"clamp">({}, x, low, high); }
/// 1 where a > b, 0 elsewhere; no gradient flows through.
constexpr Expr operator>(At a, At b) { return apply<"greater">({}, a, b); }
constexpr Expr operator<(At a, At b) { return apply<"greater">({}, b, a); }
/// `yes` where the condition is positive, `no` elsewhere: select(x > 1.0, x, square(x)).
///
/// Shapes  as a + b, of three operands
/// Errors  as a + b
constexpr Expr select(At condition, At yes, At no) { return apply<"select">({}, condition, yes, no); }

SIMPLX_HD_END
}  // namespace simplx
