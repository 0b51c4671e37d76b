// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/nn/mlp.hpp
/// The feed-forward sub-block: MLP(x) = Norm(f(x W1 (+ b1))) W2 (+ b2), where f is ReLU and there is no norm unless
/// others are given.

#include <simplx/core/named.hpp>
#include <simplx/nn/linear.hpp>
#include <simplx/ops/activation.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// max(x, 0).
struct Relu {
  constexpr Expr operator()(Expr x) const { return relu(x); }
};

/// x where it is above 0, slope x elsewhere; the slope can be set by its name at run time.
struct LeakyRelu {
  double slope = 0.2;

  constexpr Expr operator()(Expr x) const { return leaky_relu(x, hyper("slope", slope)); }
};

/// max(x, 0)^2.
struct ReluSquared {
  constexpr Expr operator()(Expr x) const { return relu_squared(x); }
};

/// x (1 + erf(x / sqrt 2)) / 2.
struct Gelu {
  constexpr Expr operator()(Expr x) const { return gelu(x); }
};
/// Its approximation by tanh.
struct GeluTanh {
  constexpr Expr operator()(Expr x) const { return gelu_tanh(x); }
};

/// x / (1 + exp(-x)); `Gated<Silu>` is the SwiGLU of LLaMA.
struct Silu {
  constexpr Expr operator()(Expr x) const { return silu(x); }
};

/// A gated linear unit: f(gate) * value of columns [value, gate], half as wide as x.
template <class Activation>
struct Gated {
  Activation activation{};

  constexpr Expr operator()(Expr x) const { return detail::gated(x, activation); }
};

/// Two products with an activation between them, and a norm of it if there is one.
///
/// Shapes  x (rows, d) -> (rows, d), through (rows, hidden); with a gate W2 has hidden / 2 rows, which LLaMA calls its
///         hidden size
template <class Activation, class Norm = Identity>
struct MlpOf {
  Index hidden = 0;  ///< columns of `up`, of which a gate leaves `down` half; four times the width of x by default
  bool bias = false;
  Activation activation{};
  Norm norm{};  ///< of what is activated

  constexpr Expr operator()(Expr x) const {
    auto h = activation(named("up", Linear{hidden ? hidden : 4 * width(x), bias})(x));  // (rows, hidden)
    return named("down", Linear{width(x), bias})(named("norm", norm)(h));
  }
};

using Mlp = MlpOf<Relu>;

}  // namespace simplx
