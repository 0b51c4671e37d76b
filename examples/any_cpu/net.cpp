// SPDX-License-Identifier: MIT
// Compiled once for each instruction set: SIMPLX_TARGET is its name.
#include "net.hpp"

#include <simplx/simplx.hpp>

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

namespace app::SIMPLX_TARGET {

using namespace simplx;

inline constexpr Decoder model{.block = sas_p, .vocab = 32, .width = 64, .heads = 4, .layers = 2, .context = 32};

/// Learns to count: token t is followed by t + 1.
Lesson learn(int steps) {
  Trainer<model> trainer{{.batch = 1, .seed = 1}};
  TokenBatch batch = make_batch(1, 32);
  for (int i = 0; i < 32; ++i) {
    batch.tokens.push_back(i);
    batch.labels.push_back((i + 1) % 32);
  }
  batch.offsets = {0, 32};
  Lesson lesson{TEXT(SIMPLX_TARGET), vector_bytes, trainer.loss(batch), 0};
  for (int i = 0; i < steps; ++i) lesson.last_loss = trainer.step(batch, AdamW{.learning_rate = 3e-3}).loss;
  return lesson;
}

}  // namespace app::SIMPLX_TARGET
