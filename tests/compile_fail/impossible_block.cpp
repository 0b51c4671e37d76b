// SPDX-License-Identifier: MIT
// chapter: Blocks
// doc: Parallel branches have one skip; here they are given two.
// expect: error: .*simplx: parallel branches have one skip, mlp_skip \(alpha_comb\): set .attention_skip = no_skip
#include <simplx/models/decoder.hpp>

using namespace simplx;

constexpr BlockConfig block{.branches = Branches::parallel
#ifdef FIXED
    , .attention_skip = no_skip
#endif
};
inline constexpr Decoder model{.block = block};
static_assert(parameters<model> > 0);
