// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/nn/norm.hpp
/// Norms as modules: they make their gain (and bias), and their epsilon can be set by name at run time.

#include <simplx/ops/norm.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// gain * x / (sqrt(mean x^2) + epsilon).
///
/// Source  epsilon outside the root: He & Hofmann's code; 1e-8: He & Hofmann 2024, App. D.1
struct RmsNorm {
  double epsilon = 1e-8;

  constexpr Expr operator()(Expr x) const {
    return rms_norm(x, vector("gain", width(x), ones), hyper("epsilon", epsilon));
  }
};

/// gain * x / sqrt(mean x^2 + epsilon): the more common form.
struct RmsNormInside {
  double epsilon = 1e-8;

  constexpr Expr operator()(Expr x) const {
    return rms_norm_inside(x, vector("gain", width(x), ones), hyper("epsilon", epsilon));
  }
};

/// gain * (x - mean) / sqrt(variance + epsilon) + bias.
struct LayerNorm {
  double epsilon = 1e-5;

  constexpr Expr operator()(Expr x) const {
    return layer_norm(x, vector("gain", width(x), ones), vector("bias", width(x), zeros), hyper("epsilon", epsilon));
  }
};

}  // namespace simplx
