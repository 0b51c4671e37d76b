// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/nn/linear.hpp
/// Linear: y = x W (+ b), and the reparameterised form of Eq. (6): y = alpha x W0 + beta x D.

#include <simplx/ops/matmul.hpp>

namespace simplx {

/// y = x W, W (width(x), out); with a bias b (1, out) if asked for.
struct Linear {
  Index out = 0;
  bool bias = false;
  Init init = normal(0.02);

  constexpr Expr operator()(Expr x) const {
    Expr y = x * weight("weight", width(x), out, init);
    return bias ? y + vector("bias", out, zeros) : y;
  }
};

/// y = x (alpha I + beta D): Eq. (6) with the identity as W0, D = 0 at first and both gains trained.
///
/// Shapes  x (rows, d); D is `delta` (d, d) -> (rows, d)
/// Source  He & Hofmann 2024, Eq. (6); the identity is never stored
struct ReparameterisedIdentity {
  double beta = 1;

  constexpr Expr operator()(Expr x) const {
    return scalar("alpha") * x + scalar("beta", constant(beta)) * (x * weight("delta", width(x), width(x), zeros));
  }
};

}  // namespace simplx
