// SPDX-License-Identifier: MIT
// chapter: Blocks
// doc: Parallel branches have a norm after them.
// expect: error: .*simplx: parallel branches share one norm in front of them: set .norm_position = NormPosition::before
#include <simplx/models/decoder.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

#ifdef FIXED
constexpr BlockConfig block{.branches = Branches::parallel, .norm_position = NormPosition::before, .attention_skip = no_skip};
#else
constexpr BlockConfig block{.branches = Branches::parallel, .norm_position = NormPosition::after, .attention_skip = no_skip};
#endif
inline constexpr Decoder model{.block = block};
static_assert(parameters<model> > 0);
