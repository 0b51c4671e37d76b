// SPDX-License-Identifier: MIT
//
// Tokens a second and memory of a training; shape, block and precision are constants of the program:
// -DSHAPE=gpt2 -DBLOCK=sas_p -DPRECISION=bfloat16.

#include "device.cuh"

using namespace bench;

namespace {

struct Shape {
  Index vocab, width;
  int heads, layers;
  Index context, batch;
};
/// GPT-2 124M; the decoder of He & Hofmann (18 layers, contexts of 128); a model as small as those for the CPU.
[[maybe_unused]] constexpr Shape gpt2{50257, 768, 12, 12, 1024, 16}, paper{50257, 768, 12, 18, 128, 128},
                                 tiny{256, 128, 4, 6, 128, 8};

inline constexpr Shape shape = SHAPE;
inline constexpr Decoder model{.block = simplx::BLOCK, .vocab = shape.vocab, .width = shape.width,
                               .heads = shape.heads, .layers = shape.layers, .context = shape.context,
                               .positions = Positions::learned};
#define WORD(name) #name
#define NAME(name) WORD(name)

}  // namespace

int main() {
  return guarded([] {
    Trainer<model, Cuda<Precision::PRECISION>> trainer({.batch = shape.batch, .seed = 1});
    const TokenBatch batch = random_batch(shape.batch, shape.context, shape.vocab);
    const GpuStream stream;  // the trainer waits for its own
    double loss = 0;
    const double ms = median_ms(stream, 1, [&] { loss = trainer.step(batch, AdamW{.learning_rate = 1e-4}).loss; });
    const double tokens = static_cast<double>(shape.batch * shape.context);
    const double flops = 3 * causal_flops<model>(simplx::tokens{shape.context}) * static_cast<double>(shape.batch);
    Row().add("shape", NAME(SHAPE)).add("block", NAME(BLOCK)).add("precision", NAME(PRECISION))
        .add("parameters", static_cast<double>(parameters<model>)).add("batch", static_cast<double>(shape.batch))
        .add("ms", ms).add("tokens_per_s", tokens / ms * 1e3).add("tflops", flops / ms * 1e-9)
        .add("gb", static_cast<double>(trainer.bytes()) * 1e-9).add("loss", loss);
  });
}
