// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/activation.hpp
/// Activations beyond ReLU: y = x where x >= 0, slope x elsewhere (leaky ReLU).
///
/// The derivative at 0 is 1, as in He & Hofmann's code; that of relu(x) at 0 is 0.

#include <simplx/ops/elementwise.hpp>

namespace simplx {

template <>
struct op<"leaky_relu"> : elementwise {
  static constexpr bool reads(int to, int operand) { return operand == 0 || to == 0; }
  static constexpr auto f(auto x, auto slope) { return select(x >= decltype(x){}, x, slope * x); }
  template <int i>
  static constexpr auto d(auto g, auto, auto x, auto slope) {
    if constexpr (i == 0) {
      return select(x >= decltype(x){}, g, slope * g);
    } else {
      return select(x >= decltype(x){}, decltype(x){}, g * x);
    }
  }
};

/// x where x >= 0, slope * x elsewhere: max(x, slope * x) for slopes from 0 to 1.
///
/// Shapes  x (rows, cols); slope (1, 1), one number -> (rows, cols)
/// Source  He & Hofmann 2024, App. C, "Linearising MLP activations"
constexpr Expr leaky_relu(At x, At slope) { return apply<"leaky_relu">({}, x, slope); }

}  // namespace simplx
