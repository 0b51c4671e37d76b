// SPDX-License-Identifier: MIT
// chapter: Shapes
// doc: A window counts tokens, the query's own among them.
// expect: error: .*simplx: a window .* is how many tokens a query sees, itself among them
// expect: -1L? >= 0
#include <simplx/models/decoder.hpp>

using namespace simplx;

#ifdef FIXED
inline constexpr Decoder model{.block = sas_p, .window = 128};
#else
inline constexpr Decoder model{.block = sas_p, .window = -1};
#endif
static_assert(parameters<model> > 0);
