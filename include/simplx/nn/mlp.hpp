// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/nn/mlp.hpp
/// The feed-forward sub-block: MLP(x) = relu(x W1 (+ b1)) W2 (+ b2).

#include <simplx/core/walk.hpp>
#include <simplx/nn/linear.hpp>
#include <simplx/ops/functions.hpp>

namespace simplx {

/// Shapes  x (rows, d) -> (rows, d), through (rows, hidden)
struct Mlp {
  Index hidden = 0;
  bool bias = false;

  constexpr Expr operator()(Expr x) const {
    auto h = relu(named("up", Linear{hidden, bias})(x));  // (rows, hidden)
    return named("down", Linear{width(x), bias})(h);
  }
};

}  // namespace simplx
