// SPDX-License-Identifier: MIT
// A complete trainer in one translation unit; the block and the depth come with -DBLOCK and -DLAYERS.
#include <simplx/simplx.hpp>

inline constexpr simplx::Decoder model{.block = simplx::BLOCK, .layers = LAYERS};

int main() {
  simplx::Trainer<model> trainer;
  const simplx::TokenBatch batch{{1, 2, 3}, {2, 3, 4}, {0, 3}};
  return trainer.step(batch, {}).finite ? 0 : 1;
}
