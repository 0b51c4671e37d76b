// SPDX-License-Identifier: MIT
#include <simplx/simplx.hpp>

#include <cstdio>

using namespace simplx;

/// SAS-P of "Simplifying Transformer Blocks": X_out = beta_SA ShapedAttention(N) + beta_FF MLP(N), N = Norm(X).
struct MyBlock {
  ShapedAttention attention;
  Mlp mlp;

  constexpr Expr operator()(int layer, Expr x) const {
    auto n = named("norm1", RmsNorm{})(x);  // used twice, computed once
    return scalar("attention_gain") * named("attention", attention.at(layer))(n)
         + scalar("mlp_gain", constant(0.1)) * named("mlp", mlp)(n);
  }
};

inline constexpr DecoderOf<MyBlock> mine{.block = {{.heads = 4}, {.hidden = 512}}};
inline constexpr Decoder paper{.block = sas_p};  // the same block by its token
static_assert(same_graph<mine, paper>());

static_assert(parameters<mine> == 1'033'174);
static_assert(arena_bytes<mine>(tokens{128}) < 5'100'000);
static_assert(parameter_shape<mine>("blocks.0.mlp.up.weight") == fixed_shape(128, 512));

int main() {
  std::printf("%s\n", describe<mine>().c_str());

  Trainer<mine> trainer{{.batch = 1, .seed = 1}};
  TokenBatch batch;
  for (int i = 0; i < 128; ++i) {  // teach it to count
    batch.tokens.push_back(i);
    batch.labels.push_back(i + 1);
  }
  batch.offsets = {0, 128};
  for (int step = 0; step <= 100; ++step) {
    const StepResult result = trainer.step(batch, AdamW{.learning_rate = 2e-3});
    if (step % 25 == 0) std::printf("step %3d  %.3f nats per token\n", step, result.loss);
  }
}
