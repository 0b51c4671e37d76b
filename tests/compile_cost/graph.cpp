// SPDX-License-Identifier: MIT
// The graph of a decoder of 18 layers of two kinds, and of each kind.
#include <simplx/simplx.hpp>

inline constexpr simplx::Decoder model{.block = simplx::sas_p, .layers = 18};
static_assert(simplx::GraphOf<model>::layout.parameters > 0);
