// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/nn/first_layer.hpp
/// Modules that only the first layer of a stack has: the value matrix of SAS, the norm of models "without norms".

#include <simplx/core/op.hpp>
#include <simplx/core/rules.hpp>

namespace simplx::inline SIMPLX_TARGET {

SIMPLX_RULE("first layer", (possible<left, right>),
            "a module that only the first layer has must be told its layer: attention.at(layer), or at_layer(module, "
            "layer), in a block's operator()(int layer, Expr x); outside of a stack attention.at(0) has it")

/// Where a module stands that only the first layer has. Unknown is neither: either guess would lose parameters in
/// silence, or make them in every layer.
enum class LayerPlace : signed char { unknown, first, later };

/// The module in layer 0, x itself in all others.
///
///     named("value", at_layer(FirstLayer<Reparameterised>{}, layer))(x)
///
/// Errors  does not compile where it was not told its layer: rule "first layer"
template <class Module>
struct FirstLayer {
  Module module{};
  LayerPlace place = LayerPlace::unknown;

  constexpr FirstLayer at(int layer) const { return {module, layer == 0 ? LayerPlace::first : LayerPlace::later}; }
  constexpr Expr operator()(Expr x) const {
    if (place == LayerPlace::unknown) return refuse("first layer", x);
    return place == LayerPlace::first ? module(x) : x;
  }
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
