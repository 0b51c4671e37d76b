// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/activation.hpp
/// Activations, and gated linear units.
///
///     leaky_relu   x if x >= 0, else slope x                          (derivative 1 at 0, as in He & Hofmann's code)
///     relu_squared max(x, 0)^2                                        So et al. 2021
///     gelu         x (1 + erf(x / sqrt 2)) / 2                        Hendrycks & Gimpel 2016
///     gelu_tanh    x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2    its approximation
///     silu         x sigmoid(x)
///
/// A gated unit takes (rows, 2 F), value and gate beside each other, to (rows, F): value * activation(gate)
/// (Shazeer 2020).

#include <simplx/ops/columns.hpp>
#include <simplx/ops/functions.hpp>
#include <simplx/ops/matmul.hpp>

namespace simplx::inline SIMPLX_TARGET {
SIMPLX_HD_BEGIN

template <>
struct op<"leaky_relu"> : elementwise {
  static constexpr bool needs_inputs = true;
  SIMPLX_HD static constexpr auto f(auto x, auto slope) { return select(literal<decltype(x)>(0) > x, slope * x, x); }
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x, auto slope) {
    const auto zero = literal<decltype(x)>(0);
    if constexpr (i == 0) {
      return select(zero > x, slope * g, g);
    } else {
      return select(zero > x, x * g, zero);
    }
  }
};

template <>
struct op<"gelu"> : elementwise {
  static constexpr bool costly = true;
  static constexpr bool needs_inputs = true;
  /// The normal distribution function, and its density for the pull-back.
  SIMPLX_HD static constexpr auto cumulative(auto x) {
    using V = decltype(x);
    return literal<V>(0.5) * (literal<V>(1) + erf(literal<V>(0.7071067811865476) * x));
  }
  SIMPLX_HD static constexpr auto f(auto x) { return x * cumulative(x); }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x) {
    using V = decltype(x);
    const V density = literal<V>(0.3989422804014327) * exp(literal<V>(-0.5) * x * x);  // 1 / sqrt(2 pi)
    return g * (cumulative(x) + x * density);
  }
};

template <>
struct op<"gelu_tanh"> : elementwise {
  static constexpr bool costly = true;
  static constexpr bool needs_inputs = true;
  /// x^2, held where the tangent long is 1: an infinite slope times 0 were NaN.
  SIMPLX_HD static constexpr auto squared(auto x) { return min(x * x, literal<decltype(x)>(1e4)); }
  SIMPLX_HD static constexpr auto bend(auto x, auto squared) {
    using V = decltype(x);
    return tanh(literal<V>(0.7978845608028654) * x * (literal<V>(1) + literal<V>(0.044715) * squared));  // sqrt(2 / pi)
  }
  SIMPLX_HD static constexpr auto f(auto x) {
    using V = decltype(x);
    return literal<V>(0.5) * x * (literal<V>(1) + bend(x, squared(x)));
  }
  template <int>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x) {
    using V = decltype(x);
    const V square = squared(x), t = bend(x, square), one = literal<V>(1);
    const V slope = literal<V>(0.7978845608028654) * (one + literal<V>(0.134145) * square);
    return g * literal<V>(0.5) * (one + t + x * (one - t * t) * slope);
  }
};

// Products are multiply(a, b): of two matrices without a run-time axis a * b would be the matrix product.

/// max(x, 0) + slope min(x, 0); slope is one number, usually hyper("slope", 0.2).
constexpr Expr leaky_relu(At x, At slope) { return apply<"leaky_relu">({}, x, slope); }
constexpr Expr relu_squared(At x) { return square(relu(x)); }
constexpr Expr gelu(At x) { return apply<"gelu">({}, x); }
constexpr Expr gelu_tanh(At x) { return apply<"gelu_tanh">({}, x); }
constexpr Expr silu(At x) { return multiply(x, sigmoid(x)); }

namespace detail {
template <class Activation>
constexpr Expr gated(At x, Activation activation) {
  const auto [value, gate] = split_columns(x);
  return multiply(value, activation(gate));
}
}  // namespace detail

/// Gated linear units by the activation of their gate: sigmoid, ReLU, GELU, SiLU.
constexpr Expr glu(At x) {
  return detail::gated(x, [](Expr gate) { return sigmoid(gate); });
}
constexpr Expr reglu(At x) {
  return detail::gated(x, [](Expr gate) { return relu(gate); });
}
constexpr Expr geglu(At x) {
  return detail::gated(x, [](Expr gate) { return gelu(gate); });
}
constexpr Expr swiglu(At x) {
  return detail::gated(x, [](Expr gate) { return silu(gate); });
}

SIMPLX_HD_END
}  // namespace simplx
