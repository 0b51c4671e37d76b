// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: A model is to fit into fewer bytes than it takes with every layer recomputed.
// expect: error: .*simplx: the model does not fit into these bytes even if every layer is recomputed
#include <simplx/models/decoder.hpp>
#include <simplx/models/within.hpp>

using namespace simplx;

inline constexpr Decoder whole{.block = sas_p, .layers = 4, .context = 64};
#ifdef FIXED
inline constexpr auto& model = within<whole, 2'000'000, tokens{64}>;
#else
inline constexpr auto& model = within<whole, 200'000, tokens{64}>;
#endif
static_assert(arena_bytes<model>(tokens{64}) <= 2'000'000);
