// SPDX-License-Identifier: MIT
//
// Tokens a second and memory of a training; shape, block and precision are constants of the program:
// -DSHAPE=gpt2 -DBLOCK=sas_p -DPRECISION=bfloat16, and -DTILED_LOSS=true for one that never holds all logits.
//
//     training [--steps N]        N steps without a clock, for tools that watch each access to memory

#include "device.cuh"

#include <simplx/models/crammed_bert.hpp>
#include <simplx/train/masking.hpp>

#include <charconv>
#include <string_view>

#if !defined(TILED_LOSS)
#define TILED_LOSS false
#endif

using namespace bench;

namespace {

struct Shape {
  bool encoder;
  Index vocab, width;
  int heads, layers;
  Index context, batch;
};
/// GPT-2 124M; the decoder of He & Hofmann (18 layers, contexts of 128), both with the vocabulary padded from 50257 to
/// 50304, as training codes for GPT-2 do: rows of odd lengths miss what tensor cores ask of addresses; their encoder,
/// of which crammed_bert.hpp says the rest; a model as small as those for the CPU; and for tools that watch each access
/// a smaller one, with GPT-2's heads and contexts of more than a tile.
[[maybe_unused]] constexpr Shape gpt2{false, 50304, 768, 12, 12, 1024, 16},
                                 paper{false, 50304, 768, 12, 18, 128, 128},
                                 bert{true, 32768, 768, 12, 16, 128, 128}, tiny{false, 256, 128, 4, 6, 128, 8},
                                 watched{false, 200, 128, 2, 2, 160, 2};

constexpr bool tiled_loss = TILED_LOSS;

template <Shape shape>
constexpr auto around(const BlockConfig& block) {
  if constexpr (shape.encoder) {
    Encoder encoder = crammed_bert(simplx::detail::crammed(block));  // v_skip_init_shaped has no name among these
    encoder.tiled_loss = tiled_loss;
    return encoder;
  } else {
    return Decoder{.block = block, .vocab = shape.vocab, .width = shape.width, .heads = shape.heads,
                   .layers = shape.layers, .context = shape.context, .positions = Positions::learned,
                   .tiled_loss = tiled_loss};
  }
}
inline constexpr Shape shape = SHAPE;
inline constexpr auto model = around<shape>(simplx::BLOCK);
#define WORD(name) #name
#define NAME(name) WORD(name)

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
