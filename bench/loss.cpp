// SPDX-License-Identifier: MIT
//
// What a loss in tiles costs, and what it saves, where the vocabulary is large: linear_cross_entropy beside
// cross_entropy of logits that are held.
//
//     loss [--rounds 5] [--json]
//
// Method: float, one thread; a training step of an embedding, a norm and a head that are tied, without any block, over
// as many sequences as make 1024 tokens; processor time, medians of rounds in which both take turns. "labelled" is the
// share of the tokens that have a label; "ratio" is above 1 where tiles are faster. "of_peak" is the share of the peak
// of multiply-adds that tiles reach over the step, of the four products that they compute for labelled rows; held
// logits need three, of all rows. The arenas are those of a thread, which runs one sequence of that length at a time.

#include "batch.hpp"
#include "measure.hpp"

using namespace simplx;

namespace {

#ifdef SIMPLX_SMOKE  // of the tests, which have no time for it
inline constexpr Index vocab = 1100, width = 64, all_tokens = 64;
#else
inline constexpr Index vocab = 50257, width = 768, all_tokens = 1024;
#endif

template <bool tiled>
struct HeadAlone {
  constexpr Expr operator()() const {
    const Expr table = weight("table", vocab, width), labels = indices("labels", Axis::tokens);
    const Expr x = named("norm", RmsNorm{})(embedding(table, indices("tokens", Axis::tokens)));
    return tiled ? linear_cross_entropy(x, table, labels) : cross_entropy(x * transpose(table), labels);
  }
};
inline constexpr HeadAlone<false> held{};
inline constexpr HeadAlone<true> in_tiles{};

void compare(bench::Rows& rows, int rounds, Index context, Index one_in) {
  const Index sequences = all_tokens / context;
  TokenBatch batch = bench::random_batch(sequences, context, vocab);
  for (std::size_t i = 0; i < batch.labels.size(); ++i) {
    if (i % static_cast<std::size_t>(one_in) != 0) batch.labels[i] = ignored_label;
  }
  Trainer<held> by_held{{.batch = sequences, .context = context}};
  Trainer<in_tiles> by_tiles{{.batch = sequences, .context = context}};
  const double peak = bench::peak_of<Cpu<float>>();
  const auto times = bench::take_turns({rounds, 1}, [&] { by_held.step(batch, AdamW{}); },
                                       [&] { by_tiles.step(batch, AdamW{}); });
  const double labelled = 1 / static_cast<double>(one_in);
  const double flops = 4 * labelled * ::flops<in_tiles>(tokens{all_tokens});
  const auto megabytes = [&](Index bytes) { return static_cast<double>(bytes) * 1e-6; };
  rows.add({{"vocab", static_cast<double>(vocab)}, {"width", static_cast<double>(width)},
            {"tokens", static_cast<double>(context)}, {"labelled", labelled}, {"held_ms", times[0] * 1e-3},
            {"tiled_ms", times[1] * 1e-3}, {"ratio", times[0] / times[1]}, {"of_peak", flops / times[1] * 1e-3 / peak},
            {"held_arena_mb", megabytes(arena_bytes<held>(tokens{context}))},
            {"tiled_arena_mb", megabytes(arena_bytes<in_tiles>(tokens{context}))}});
}

}  // namespace

int main(int count, char** arguments) {
  return bench::guarded([&] {
    const bench::Flags flags(count, arguments, {{"--rounds", "5"}});
    bench::Rows rows(flags);
    const int rounds = static_cast<int>(flags.number("--rounds"));
    for (const Index context : {all_tokens / 8, all_tokens}) {
      for (const Index one_in : {1, 4}) compare(rows, rounds, context, one_in);
    }
  });
}
