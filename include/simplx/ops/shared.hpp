// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/shared.hpp
/// Shared: the block of a stack whose layers have one set of parameters, as in ALBERT and in transformers that loop.
///
///     x = stack("blocks", 12, Shared{Block{...}}, x);          // parameters blocks.mlp.up.weight, without a number
///     inline constexpr DecoderOf<Shared<Block>> looped{...};   // in place of DecoderOf<Block>

#include <simplx/core/expr.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// False of what is called: a stack takes the block out of its Shared.
template <class Block>
inline constexpr bool is_block_of_stack = false;

}  // namespace detail

/// A block whose parameters and constants are made once for all layers of the stack; the gradient is the sum over the
/// layers. A block that asks for its layer is told 0 in all of them. Activations, what a stream remembers, probes and
/// the masks of dropout are those of each layer.
///
/// Errors  does not compile where it is called: only `stack`, `recompute` and `recompute_first` take it
/// Cost    of parameters, moments and prepared weights, those of one layer; of FLOPs and activations, those of all. The
///         gradient of a Trainer has room for each layer, since only so its bits do not depend on threads
/// Source  Lan et al. 2020, "ALBERT", Sec. 3.1; Dehghani et al. 2019, "Universal Transformers"
template <class Block>
struct Shared {
  Block block;

  constexpr Expr operator()(At x) const {
    static_assert(detail::is_block_of_stack<Block>,
                  "simplx: Shared{block} is given to a stack, and to nothing that would call it: named, frozen and "
                  "recompute go within it, as in stack(\"blocks\", layers, Shared{named(\"inner\", block)}, x)");
    return {x.node};
  }
};

template <class Block>
Shared(Block) -> Shared<Block>;  // clang++ 14 deduces no aggregates

}  // namespace simplx
