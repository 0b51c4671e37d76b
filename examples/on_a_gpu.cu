// SPDX-License-Identifier: MIT
#include <simplx/simplx.hpp>
#include <simplx/cuda/trainer.cuh>

#include <cstdio>

using namespace simplx;

inline constexpr Decoder model{.block = sas_p, .vocab = 8, .width = 64, .heads = 4, .layers = 4, .context = 8};

int main() {
  try {
    Trainer<model, Cuda<>> trainer{{.batch = 1}};  // Cuda<Precision::bfloat16>: on tensor cores
    const TokenBatch counting{{0, 1, 2, 3, 4, 5, 6, 7}, {1, 2, 3, 4, 5, 6, 7, 0}, {0, 8}};
    for (int step = 0; step <= 100; ++step) {
      const StepResult result = trainer.step(counting, AdamW{.learning_rate = 1e-3});
      if (step % 20 == 0) std::printf("step %3d  loss %.3f\n", step, result.loss);
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
