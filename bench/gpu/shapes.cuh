// SPDX-License-Identifier: MIT
#pragma once

/// \file bench/gpu/shapes.cuh
/// The models that are timed on a GPU. A program has one, by constants: -DSHAPE=gpt2 -DBLOCK=sas_p, and
/// -DTILED_LOSS=true for one that never holds all logits.

#include "device.cuh"

#include <simplx/models/crammed_bert.hpp>

#if !defined(TILED_LOSS)
#define TILED_LOSS false
#endif
#define WORD(name) #name
#define NAME(name) WORD(name)

namespace bench {

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
[[maybe_unused]] inline constexpr Shape gpt2{false, 50304, 768, 12, 12, 1024, 16},
                                 paper{false, 50304, 768, 12, 18, 128, 128},
                                 bert{true, 32768, 768, 12, 16, 128, 128}, tiny{false, 256, 128, 4, 6, 128, 8},
                                 watched{false, 200, 128, 2, 2, 160, 2};

inline constexpr bool tiled_loss = TILED_LOSS;

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

}  // namespace bench
