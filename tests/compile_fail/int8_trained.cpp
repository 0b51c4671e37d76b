// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: A model is trained with its weights as bytes.
// expect: error: .*simplx: Path::int8 rounds weights to bytes, which have no backward: train with Path::fast, and load what was trained into an Inference<model, Cpu<float, Path::int8>>
#include <simplx/simplx.hpp>

using namespace simplx;

inline constexpr Decoder model{.block = sas_p, .vocab = 16, .width = 32, .heads = 2, .layers = 2, .context = 8};

void train(const TokenBatch& batch) {
#ifdef FIXED
  Trainer<model> trainer;
#else
  Trainer<model, Cpu<float, Path::int8>> trainer;
#endif
  trainer.step(batch, AdamW{.learning_rate = 1e-3});
}
