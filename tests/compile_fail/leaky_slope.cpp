// SPDX-License-Identifier: MIT
// chapter: Blocks
// doc: The slope of leaky_relu is no slope.
// expect: error: .*simplx: the slope of leaky_relu lies between 0 and 1
#include <simplx/models/decoder.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

#ifdef FIXED
constexpr BlockConfig block{.activation = Activation::leaky_relu, .slope = 0.2};
#else
constexpr BlockConfig block{.activation = Activation::leaky_relu, .slope = 2};
#endif
inline constexpr Decoder model{.block = block};
static_assert(parameters<model> > 0);
