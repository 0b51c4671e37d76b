// SPDX-License-Identifier: MIT
// chapter: Blocks
// doc: A block without norms is to have them after its sums.
// expect: error: .*simplx: a block without norms has none after its sums
#include <simplx/models/decoder.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

#ifdef FIXED
constexpr BlockConfig block{.norm = Norm::layer_norm, .norm_position = NormPosition::after};
#else
constexpr BlockConfig block{.norm = Norm::none, .norm_position = NormPosition::after};
#endif
inline constexpr Decoder model{.block = block};
static_assert(parameters<model> > 0);
