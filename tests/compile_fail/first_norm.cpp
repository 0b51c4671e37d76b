// SPDX-License-Identifier: MIT
// chapter: Blocks
// doc: Layer 0 is to keep a norm, but every layer has one.
// expect: error: .*simplx: first_norm gives layer 0 the norm that the others lack: set .norm = Norm::none, or drop it
#include <simplx/models/decoder.hpp>
#include <simplx/core/counts.hpp>

using namespace simplx;

#ifdef FIXED
constexpr BlockConfig block{.norm = Norm::none, .first_norm = true};
#else
constexpr BlockConfig block{.first_norm = true};
#endif
inline constexpr Decoder model{.block = block};
static_assert(parameters<model> > 0);
