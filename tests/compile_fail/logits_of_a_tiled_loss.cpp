// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: Logits are asked of a trainer whose loss never holds them all.
// expect: error: .*simplx: a loss in tiles holds no logits: take them from Inference<logits_of<model>>
#include <simplx/simplx.hpp>

using namespace simplx;

inline constexpr Decoder model{.block = sas_p, .width = 64, .layers = 2, .tiled_loss = true};
#ifdef FIXED
using Net = Inference<logits_of<model>>;
#else
using Net = Trainer<model>;
#endif
float first(Net& net, std::span<const std::int32_t> tokens) { return net.logits(tokens)[0]; }
