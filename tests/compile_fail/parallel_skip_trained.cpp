// SPDX-License-Identifier: MIT
// chapter: Blocks
// doc: The one skip of parallel branches is trained.
// expect: error: .*simplx: the skip of parallel branches, mlp_skip \(alpha_comb\), is not trained: set it to no_skip or fixed_at
#include <simplx/models/decoder.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

#ifdef FIXED
constexpr BlockConfig block{.branches = Branches::parallel, .attention_skip = no_skip, .mlp_skip = fixed_at(0.5)};
#else
constexpr BlockConfig block{.branches = Branches::parallel, .attention_skip = no_skip, .mlp_skip = trainable(0.5)};
#endif
inline constexpr Decoder model{.block = block};
static_assert(parameters<model> > 0);
