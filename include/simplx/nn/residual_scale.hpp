// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/nn/residual_scale.hpp
/// ResScale: lambda o x in the place of x on a skip, lambda one number or one for each column.

#include <simplx/ops/elementwise.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// Whether a skip has a lambda: none, one number, or one for each column.
enum class ResidualScale : signed char { none, number, vector };

/// lambda o x; lambda starts at one.
///
/// Source  Shleifer et al. 2021, Sec. 2.2 (vector) and 4.2 (number)
constexpr Expr residual_scaled(ResidualScale kind, const char* name, Expr x) {
  switch (kind) {
    case ResidualScale::number: return multiply(scalar(name, ones), x);
    case ResidualScale::vector: return multiply(vector(name, width(x), ones), x);
    default: return x;
  }
}

}  // namespace simplx
