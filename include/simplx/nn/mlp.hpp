// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/nn/mlp.hpp
/// The feed-forward sub-block: MLP(x) = f(x W1 (+ b1)) W2 (+ b2), where f is ReLU unless another is given.

#include <simplx/core/walk.hpp>
#include <simplx/nn/linear.hpp>
#include <simplx/ops/activation.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// max(x, 0).
struct Relu {
  constexpr Expr operator()(Expr x) const { return relu(x); }
};

/// max(x, slope x); the slope can be set by its name at run time.
struct LeakyRelu {
  double slope = 0.2;

  constexpr Expr operator()(Expr x) const { return leaky_relu(x, hyper("slope", slope)); }
};

/// Shapes  x (rows, d) -> (rows, d), through (rows, hidden)
template <class Activation>
struct MlpOf {
  Index hidden = 0;  ///< four times the width of x unless given
  bool bias = false;
  Activation activation{};

  constexpr Expr operator()(Expr x) const {
    auto h = activation(named("up", Linear{hidden ? hidden : 4 * width(x), bias})(x));  // (rows, hidden)
    return named("down", Linear{width(x), bias})(h);
  }
};

using Mlp = MlpOf<Relu>;

}  // namespace simplx
