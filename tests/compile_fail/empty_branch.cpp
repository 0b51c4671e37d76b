// SPDX-License-Identifier: MIT
// chapter: Blocks
// doc: The gain of a branch is zero, which removes the branch.
// expect: error: .*simplx: a block without its attention or MLP branch is no block of the papers: a gain of a branch cannot be zero
#include <simplx/models/decoder.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

#ifdef FIXED
constexpr BlockConfig block{.mlp_gain = trainable(0.1)};
#else
constexpr BlockConfig block{.mlp_gain = fixed_at(0)};
#endif
inline constexpr Decoder model{.block = block};
static_assert(parameters<model> > 0);
