// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/recompute.hpp
/// Memory for time: a module of which nothing is kept, because backward evaluates it again.
///
///     x = stack("blocks", 48, recompute(Block{...}), x);       // keeps what goes from block to block, nothing else

#include <simplx/ops/stack.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// A module that is evaluated twice; names, values and gradients are those of the module.
template <class Module>
struct Recomputed {
  Module module;

  constexpr Expr operator()(At x) const {
    return detail::stack_of("", {.recomputed = true}, module, x);
  }
  constexpr Expr operator()(int layer, At x) const
    requires requires(const Module& block, Expr y) { block(layer, y); }
  {
    const auto at_layer = [block = module, layer](Expr y) { return block(layer, y); };
    return detail::stack_of("", {.recomputed = true}, at_layer, x);
  }
};

/// A block of a stack whose first layers are evaluated twice.
template <class Block>
struct RecomputedFirst {
  int layers;
  Block block;

  constexpr Expr operator()(int layer, Expr x) const { return in_layer(layer, layer, x); }
  /// Where the block sees another layer's number.
  constexpr Expr in_layer(int layer, int seen, Expr x) const {
    if (layer < layers) return detail::apply_block(Recomputed<Block>{block}, seen, x);
    return detail::apply_block(block, seen, x);
  }
};

/// A module of which forward keeps nothing: backward evaluates it again.
///
/// Shapes  the module returns the shape it is given
/// Errors  as stack; does not compile if the module contains a probe: rule "probe in recompute"
/// Cost    its forward once more; keeps x and nothing of what the module computes
template <class Module>
constexpr Recomputed<Module> recompute(const Module& module) {
  return {module};
}

template <class Block>
constexpr Shared<Recomputed<Block>> recompute(const Shared<Block>& shared) {
  return {{shared.block}};
}

constexpr Expr recompute(Expr value) { return refuse("recompute", value); }

/// The same in the first layers of a stack only: stack("blocks", 48, recompute_first(30, Block{...}), x).
template <class Block>
constexpr RecomputedFirst<Block> recompute_first(int layers, const Block& block) {
  return {layers, block};
}
template <class Block>
constexpr Shared<RecomputedFirst<Block>> recompute_first(int layers, const Shared<Block>& shared) {
  return {{layers, shared.block}};
}

}  // namespace simplx
