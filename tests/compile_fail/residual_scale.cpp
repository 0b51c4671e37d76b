// SPDX-License-Identifier: MIT
// chapter: Blocks
// doc: A skip is to have a gain and a residual scale.
// expect: error: .*simplx: a residual scale stands on the skip of sequential branches, in the place of a gain
#include <simplx/models/decoder.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

#ifdef FIXED
constexpr BlockConfig block{.mlp_residual_scale = ResidualScale::vector};
#else
constexpr BlockConfig block{.mlp_skip = trainable(1), .mlp_residual_scale = ResidualScale::vector};
#endif
inline constexpr Decoder model{.block = block};
static_assert(parameters<model> > 0);
