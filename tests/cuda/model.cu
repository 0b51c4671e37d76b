// SPDX-License-Identifier: MIT
/// A program that trains two models for a step, for nvcc: every kernel of a model as its expression gives it. Without
/// a GPU it ends with a sentence and status 1.
#include <simplx/blocks/tokens.hpp>
#include <simplx/cuda/evaluation.cuh>
#include <simplx/cuda/trainer.cuh>
#include <simplx/models/decoder.hpp>

#include <cstdio>

using namespace simplx;

inline constexpr Decoder without_skips{.block = sas_p, .vocab = 256, .width = 128, .layers = 6, .context = 128};
inline constexpr Decoder with_skips{.block = pre_ln, .vocab = 50257, .width = 768, .heads = 12, .layers = 12,
                                    .context = 1024, .positions = Positions::learned};

/// The loss of a step; everything else that a trainer can do is compiled.
template <auto const& model>
double step() {
  Trainer<model, Cuda<>> trainer{{.batch = 2}};
  const TokenBatch batch{{1, 2, 3, 4, 5}, {2, 3, 4, 5, 6}, {0, 3, 5}};
  const double loss = trainer.step(batch, AdamW{.learning_rate = 1e-3}).loss;
  trainer.restore(trainer.state());
  return loss + trainer.loss(batch) + static_cast<double>(trainer.logits(batch.tokens)[0]);
}

/// With an argument the small model alone.
int main(int count, char**) {
  try {
    std::printf("%f\n", step<without_skips>());
    if (count == 1) std::printf("%f\n", step<with_skips>());
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
