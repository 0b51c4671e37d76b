// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: A learning rate does not say by which rule parameters move.
// expect: error: .*simplx: step and update need an optimiser, such as AdamW\{\.learning_rate = 1e-3\}
#include <simplx/simplx.hpp>

using namespace simplx;

inline constexpr Decoder model{.block = sas_p, .width = 64, .layers = 2};
#ifdef FIXED
StepResult run(Trainer<model>& trainer, const TokenBatch& batch) {
  return trainer.step(batch, AdamW{.learning_rate = 1e-3});
}
#else
StepResult run(Trainer<model>& trainer, const TokenBatch& batch) { return trainer.step(batch, 1e-3); }
#endif
