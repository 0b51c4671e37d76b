// SPDX-License-Identifier: MIT
//
// Lesson 7: from Pre-LN to SAS-P, one token of the configuration at a time.
//
//     Pre-LN   X' = X + MHA(Norm(X)),   X_out = X' + MLP(Norm(X'))
//     SAS-P    X_out = beta_SA ShapedAttention(N) + beta_FF MLP(N),   N = Norm(X)
//
// "Simplifying Transformer Blocks" [He & Hofmann 2024] removes one part of the block after the other and asks each
// time whether it still learns. So does this program: what a variant costs is known to the compiler, what it learns is
// measured, on sentences of a toy language whose entropy is known.
//
//     g++ -std=c++20 -O2 -I include -I /usr/include/eigen3 examples/07_pre_ln_to_sas_p.cpp -pthread && ./a.out

#include <simplx/simplx.hpp>

#include <cstdio>

using namespace simplx;

/// Variant i: the changes 1 to i, on top of Pre-LN.
constexpr BlockConfig variant(int i) {
  BlockConfig block = pre_ln;
  if (i >= 1) block.matrix = AttentionMatrix::shaped;  // Eq. (5): alpha I + beta A - gamma C
  if (i >= 2) block.attention_skip = no_skip, block.attention_gain = trainable(1);
  if (i >= 3) block.mlp_skip = trainable(1), block.mlp_gain = trainable(0.1);  // Sec. 4.1: the MLP is weighted down
  if (i >= 4) block.value = no_projection, block.first_value = true;           // Sec. 4.2, App. C
  if (i >= 5) block.projection = no_projection;                                // this is SAS
  if (i >= 6) block.branches = Branches::parallel, block.mlp_skip = no_skip;   // Sec. 4.3: this is SAS-P
  return block;
}
constexpr const char* changes[] = {"Pre-LN", "+ shaped attention", "- attention skip", "+ trained gains of the MLP",
                                   "- values", "- projection: SAS", "- MLP skip, in parallel: SAS-P"};
constexpr int variants = 7;

template <int i>
inline constexpr Decoder model{.block = variant(i), .vocab = 128, .width = 32, .heads = 2, .layers = 3, .context = 64,
                               .positions = Positions::learned};
inline constexpr Decoder paper{.block = sas_p, .vocab = 128, .width = 32, .heads = 2, .layers = 3, .context = 64,
                               .positions = Positions::learned};
static_assert(same_graph<model<variants - 1>, paper>());

/// Sentences such as "the bird sees the old cat.": each choice is a fair draw, so the entropy is the sum of logarithms.
struct Language {
  std::uint64_t key = key_of(1, "sentences"), drawn = 0;
  double nats = 0, bytes = 0;

  const char* one_of(std::span<const char* const> words) {
    nats += std::log(static_cast<double>(words.size()));
    return words[bits(key, drawn++) % words.size()];
  }
  std::string sentence() {
    static constexpr const char* nouns[] = {"cat", "dog", "bird", "mouse", "child", "fish", "horse", "bear"};
    static constexpr const char* verbs[] = {" sees ", " likes ", " hears ", " follows ", " finds "};
    static constexpr const char* adjectives[] = {"", "old ", "young ", "tired "};
    std::string text = "the ";  // draw by draw: the operands of + have no order
    text += one_of(adjectives);
    text += one_of(nouns);
    text += one_of(verbs);
    text += "the ";
    text += one_of(adjectives);
    text += one_of(nouns);
    text += ".\n";
    bytes += static_cast<double>(text.size());
    return text;
  }
};

TokenBatch next_batch(Language& language, Index sequences) {
  TokenBatch batch = make_batch(sequences, 64);
  batch.offsets = {0};
  for (Index s = 0; s < sequences; ++s) {
    std::string text;
    while (text.size() < 65) text += language.sentence();
    for (int i = 0; i < 64; ++i) batch.tokens.push_back(text[i]), batch.labels.push_back(text[i + 1]);
    batch.offsets.push_back(64 * (s + 1));
  }
  return batch;
}

template <int i>
void train() {
  constexpr Rows rows = tokens{64};
  std::printf("%-31s %6td %12.0f %10.0f", changes[i], parameters<model<i>>, flops<model<i>>(rows) / 64,
              static_cast<double>(arena_bytes<model<i>>(rows)) / 1024);
  Trainer<model<i>> trainer{{.batch = 32, .seed = 1}};
  Language language;
  for (int step = 1; step <= 120; ++step) {
    trainer.step(next_batch(language, 8), AdamW{.learning_rate = 1e-2 * std::min(1.0, (140 - step) / 120.0)});
    if (step % 60 == 0) {
      Language held_out{.key = key_of(2, "sentences")};
      std::printf(" %9.2f", trainer.loss(next_batch(held_out, 32)));
    }
  }
  std::printf("\n");
}

int main() {
  std::printf("SAS-P has %s\n", describe<paper>().c_str());

  std::printf("%-31s %6s %12s %10s %9s %9s\n", "", "params", "FLOPs/token", "arena KiB", "step 60", "step 120");
  [&]<int... i>(std::integer_sequence<int, i...>) { (train<i>(), ...); }(std::make_integer_sequence<int, variants>{});

  Language language;
  for (int i = 0; i < 10000; ++i) language.sentence();
  std::printf("\nthe language itself has %.2f nats per byte\n", language.nats / language.bytes);
}
