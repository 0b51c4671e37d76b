// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/nn/first_layer.hpp
/// Modules that only the first layer of a stack has: the value matrix of SAS, the norm of models "without norms".

#include <simplx/core/expr.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// The module in layer 0, x itself in all others.
///
///     named("value", at_layer(FirstLayer<Reparameterised>{}, layer))(x)
template <class Module>
struct FirstLayer {
  Module module{};
  bool here = false;

  constexpr FirstLayer at(int layer) const { return {module, layer == 0}; }
  constexpr Expr operator()(Expr x) const { return here ? module(x) : x; }
};

/// A module as it is in one layer of a stack; most are the same in all.
template <class Module>
constexpr Module at_layer(const Module& module, int layer) {
  if constexpr (requires { module.at(layer); }) {
    return module.at(layer);
  } else {
    return module;
  }
}

}  // namespace simplx
