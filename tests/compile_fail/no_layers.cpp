// SPDX-License-Identifier: MIT
// chapter: Names, stacks and recomputation
// doc: A stack has no layers.
// expect: error: .*simplx: a stack needs at least one layer
// never: error: .*Trainer
#include <simplx/models/decoder.hpp>
#include <simplx/train/trainer.hpp>

using namespace simplx;

#ifdef FIXED
inline constexpr Decoder model{.block = pre_ln, .layers = 1};
#else
inline constexpr Decoder model{.block = pre_ln, .layers = 0};
#endif
void run(Trainer<model>& trainer, const TokenBatch& batch) { trainer.step(batch, AdamW{}); }
