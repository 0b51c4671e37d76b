// SPDX-License-Identifier: MIT
// chapter: Blocks
// doc: Layer 0 is to have a value matrix of its own, but every layer has one.
// expect: error: .*simplx: first_value gives layer 0 the value matrix that the others lack
#include <simplx/models/decoder.hpp>

using namespace simplx;

#ifdef FIXED
constexpr BlockConfig block{.value = no_projection, .first_value = true};
#else
constexpr BlockConfig block{.first_value = true};
#endif
inline constexpr Decoder model{.block = block};
static_assert(parameters<model> > 0);
