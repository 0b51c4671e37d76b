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

template <>
struct op<"leaky_relu"> : elementwise {
  static constexpr bool needs_inputs = true;
  static constexpr auto f(auto x, auto slope) { return select(literal<decltype(x)>(0) > x, slope * x, x); }
  template <int i>
  static constexpr auto d(auto g, auto, auto x, auto slope) {
    const auto zero = literal<decltype(x)>(0);
    if constexpr (i == 0) {
      return select(zero > x, slope * g, g);
    } else {
      return select(zero > x, x * g, zero);
    }
  }
};

// Products are multiply(a, b): of two matrices without a run-time axis a * b would be the matrix product.

/// max(x, 0) + slope min(x, 0); slope is one number, usually hyper("slope", 0.2).
constexpr Expr leaky_relu(At x, At slope) { return apply<"leaky_relu">({}, x, slope); }
constexpr Expr relu_squared(At x) { return square(relu(x)); }
constexpr Expr gelu(At x) {
  Expr value{x.node};
  return multiply(0.5 * value, 1.0 + erf(0.7071067811865476 * value));
}
constexpr Expr gelu_tanh(At x) {
  Expr value{x.node};
  return multiply(0.5 * value, 1.0 + tanh(0.7978845608028654 * (value + multiply(0.044715 * value, square(value)))));
}
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

}  // namespace simplx
