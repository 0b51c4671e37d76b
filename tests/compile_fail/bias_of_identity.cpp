// SPDX-License-Identifier: MIT
// chapter: Blocks
// doc: Values that are x itself are given a bias.
// expect: error: .*simplx: an identity or reparameterised value or projection has no bias: set .value_projection_bias = false
#include <simplx/models/decoder.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

#ifdef FIXED
constexpr BlockConfig block{.value = no_projection, .value_projection_bias = false};
#else
constexpr BlockConfig block{.value = no_projection, .value_projection_bias = true};
#endif
inline constexpr Decoder model{.block = block};
static_assert(parameters<model> > 0);
