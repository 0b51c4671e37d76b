// SPDX-License-Identifier: MIT
// chapter: Blocks
// doc: Values that are the normalised input are to be normalised.
// expect: error: .*simplx: without a value matrix query_key_value_norm would normalise what the block's norm has normalised
#include <simplx/models/decoder.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

#ifdef FIXED
constexpr BlockConfig block{.value = dense(), .query_key_value_norm = true};
#else
constexpr BlockConfig block{.value = no_projection, .query_key_value_norm = true};
#endif
inline constexpr Decoder model{.block = block};
static_assert(parameters<model> > 0);
