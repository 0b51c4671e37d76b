// SPDX-License-Identifier: MIT
// chapter: Blocks
// doc: A switch of the configuration is reserved for a later version.
// expect: error: .*simplx: this switch of BlockConfig is reserved
#include <simplx/models/decoder.hpp>

using namespace simplx;

#ifdef FIXED
constexpr BlockConfig block{.gated = false};
#else
constexpr BlockConfig block{.gated = true};
#endif
inline constexpr Decoder model{.block = block};
static_assert(parameters<model> > 0);
