// SPDX-License-Identifier: MIT
// chapter: Blocks
// doc: A block without norms is to have one of its attention's result.
// expect: error: .*simplx: attention_norm, mlp_norm and query_key_value_norm are norms of the block's kind, which is none
#include <simplx/models/decoder.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

#ifdef FIXED
constexpr BlockConfig block{.norm = Norm::layer_norm, .attention_norm = true};
#else
constexpr BlockConfig block{.norm = Norm::none, .attention_norm = true};
#endif
inline constexpr Decoder model{.block = block};
static_assert(parameters<model> > 0);
