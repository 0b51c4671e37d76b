// SPDX-License-Identifier: MIT
// chapter: Blocks
// doc: Queries that start at zero are to be normalised.
// expect: error: .*simplx: skip_init and shaped attention start with queries of zero, which no norm can scale
#include <simplx/models/decoder.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

#ifdef FIXED
constexpr BlockConfig block{.matrix = AttentionMatrix::softmax, .query_key_value_norm = true};
#else
constexpr BlockConfig block{.matrix = AttentionMatrix::shaped, .query_key_value_norm = true};
#endif
inline constexpr Decoder model{.block = block};
static_assert(parameters<model> > 0);
