// SPDX-License-Identifier: MIT
//
// Tokens a second and memory of a training; shape, block and precision are constants of the program:
// -DSHAPE=gpt2 -DBLOCK=sas_p -DPRECISION=bfloat16, and -DTILED_LOSS=true for one that never holds all logits.
//
//     training [--steps N]        N steps without a clock, for tools that watch each access to memory

#include "shapes.cuh"

#include <simplx/train/masking.hpp>

#include <charconv>
#include <string_view>

using namespace bench;

namespace {

/// An encoder predicts a quarter of the tokens of each sequence; its head has no other rows, as with the peers.
TokenBatch some_batch() {
  TokenBatch batch = random_batch(shape.batch, shape.context, shape.vocab);
  if (shape.encoder) mask_tokens(batch, {.share = 0.25, .mask_token = 0, .words = shape.vocab}, 0);
  return batch;
}

/// What follows --steps; 0 without it.
int steps_of(int count, char** words) {
  if (count == 1) return 0;
  int steps = 0;
  const std::string_view number = count == 3 && std::string_view(words[1]) == "--steps" ? words[2] : "";
  std::from_chars(number.data(), number.data() + number.size(), steps);
  if (steps < 1) throw Error("these are no arguments", "training [--steps N]");
  return steps;
}

}  // namespace

int main(int count, char** words) {
  return guarded([&] {
    const int steps = steps_of(count, words);
    using Trained = Trainer<model, Cuda<Precision::PRECISION>>;
    Trained trainer({.batch = shape.batch, .seed = 1});
    const TokenBatch batch = some_batch();
    double loss = 0;
    const auto step = [&] { loss = trainer.step(batch, AdamW{.learning_rate = 1e-4}).loss; };
    const auto about = [] {
      Row row;
      row.add("shape", NAME(SHAPE)).add("block", NAME(BLOCK)).add("precision", NAME(PRECISION));
      if (tiled_loss) row.add("logits", "in tiles");
      row.add("parameters", static_cast<double>(parameters<model>)).add("batch", static_cast<double>(shape.batch));
      return row;
    };
    if (steps) {
      for (int i = 0; i < steps; ++i) step();
      about().add("steps", steps).add("loss", loss);
      return;
    }
    const GpuStream stream;  // the trainer waits for its own
    const double ms = median_ms(stream, 1, step);
    const double tokens = static_cast<double>(shape.batch * shape.context);
    const Rows rows{.tokens = shape.batch * shape.context, .sequences = shape.batch,
                    .labelled = labelled_tokens(batch)};
    const double flops = 3 * simplx::detail::graph_flops<Trained::G>(rows, true);
    Row row = about();
    if (!trainer.not_recorded().empty()) row.add("not_recorded", trainer.not_recorded());
    if (!trainer.not_fused().empty()) row.add("not_fused", trainer.not_fused());
    row.add("ms", ms).add("tokens_per_s", tokens / ms * 1e3).add("tflops", flops / ms * 1e-9)
        .add("gb", static_cast<double>(trainer.bytes()) * 1e-9).add("loss", loss);
  });
}
