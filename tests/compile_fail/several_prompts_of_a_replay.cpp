// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: Several prompts for what evaluates one text anew for each token.
// expect: error: .*simplx: several prompts are continued by a Stream made with \{\.sequences = n\}
#include <simplx/generate/generate.hpp>
#include <simplx/generate/stream.hpp>
#include <simplx/models/decoder.hpp>

using namespace simplx;

inline constexpr Decoder model{.block = sas_p, .vocab = 9, .width = 16, .heads = 2, .layers = 1, .context = 8};

void write(Inference<logits_of<model>>& net, const TokenBatch& prompts, std::span<Sampler> draws) {
#ifdef FIXED
  Stream<logits_of<model>> source(net, {.sequences = prompts.sequences()});
#else
  Replay<logits_of<model>> source(net);
#endif
  generate(source, prompts, 20, draws, [](Index, std::int32_t token) { return token != 0; });
}
