// SPDX-License-Identifier: MIT
/// A program that trains a GPT-2 for a step, for nvcc: every kernel of a model as its expression gives it.
#include <simplx/blocks/tokens.hpp>
#include <simplx/cuda/evaluation.cuh>
#include <simplx/cuda/trainer.cuh>
#include <simplx/models/decoder.hpp>

#include <cstdio>

using namespace simplx;

inline constexpr Decoder model{.block = pre_ln, .vocab = 50257, .width = 768, .heads = 12, .layers = 12,
                               .context = 1024, .positions = Positions::learned};

/// The loss of a step; everything else that a trainer can do is compiled.
double step() {
  Trainer<model, Cuda<>> trainer{{.batch = 2}};
  const TokenBatch batch{{1, 2, 3, 4, 5}, {2, 3, 4, 5, 6}, {0, 3, 5}};
  const double loss = trainer.step(batch, AdamW{.learning_rate = 1e-3}).loss;
  trainer.restore(trainer.state());
  return loss + trainer.loss(batch) + static_cast<double>(trainer.logits(batch.tokens)[0]);
}

int main() { std::printf("%f\n", step()); }
