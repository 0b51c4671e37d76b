// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/nn/dropout.hpp
/// Dropout as a module: its rate can be set by its name at run time.

#include <simplx/ops/dropout.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// In training each element is 0 with probability `rate`, and else x / (1 - rate); a rate of 0 leaves no trace.
struct Dropout {
  double rate = 0;

  constexpr Expr operator()(Expr x) const { return rate == 0 ? x : dropout("mask", x, hyper("rate", rate)); }
};

}  // namespace simplx
