// SPDX-License-Identifier: MIT
#include "text.hpp"

#include "corpus.hpp"

namespace train_lm {

using namespace simplx;
namespace fs = std::filesystem;

namespace {

const fs::path& results_of(const Options& options) {
  return options.results.empty() ? options.out : options.results;
}

/// The paths that the options name.
///
/// Errors  throws Error if results would be written to a directory of text, or around one: they would become text
std::vector<fs::path> paths_of(const Options& options) {
  std::vector<fs::path> paths = options.text.empty() ? std::vector{default_text()} : options.text;
  const fs::path& results = results_of(options);
  std::error_code missing, ignored;
  const fs::path outer = fs::canonical(results, missing);
  for (const fs::path& path : paths) {
    if (missing || !fs::is_directory(path, ignored)) continue;
    const fs::path inner = fs::canonical(path, ignored);
    if (std::ranges::mismatch(outer, inner).in1 != outer.end()) continue;
    throw Error(fmt::format("--out {} {} the text in {}", results.string(), outer == inner ? "is also" : "is around",
                            path.string()),
                "results would become text: give another --out, which may lie within the text's directory");
  }
  return paths;
}

/// The tokens that a model of the text must know: those of its tokenizer, or up to the largest in it.
Index vocab_of(const TokenCorpus& corpus) {
  if (corpus.tokenizer) return corpus.tokenizer->size();
  Index vocab = 0;
  for (const TokenDocuments* part : {&corpus.training, &corpus.validation}) {
    for (Index i = 0; i < part->tokens.size(); ++i) vocab = std::max(vocab, Index{part->tokens[i]} + 1);
  }
  return vocab;
}

TokenCorpus open_known(const Options& options) {
  TokenCorpus corpus = open_text(options.text, {.text = {.window = context + 1, .except = results_of(options)},
                                                .vocab = std::numeric_limits<Index>::max()});
  const Index vocab = vocab_of(corpus);
  if (vocab > model_vocab()) {
    throw Error(fmt::format("{} has a vocabulary of {} tokens, and the models of this program know {}",
                            corpus.sources[0].string(), vocab, model_vocab()),
                fmt::format("tools/demo --vocab {0} builds one that knows them, as does CMake with -DSIMPLX_VOCAB={0}",
                            vocab));
  }
  if (!corpus.tokenizer && model_vocab() == 256) corpus.tokenizer.emplace();
  return corpus;
}

/// Windows of a part of the text; if it has not a single one, says how much would do.
Batches windows(const TokenDocuments& part, const fs::path& path, const char* purpose, const char* token, Index batch,
                std::uint64_t seed) {
  Index longest = 0;
  for (const Document& document : part.documents) longest = std::max(longest, document.end - document.begin);
  if (longest > context) {
    return {part.tokens, part.documents, {.context = context, .sequences = batch, .seed = seed}};
  }
  throw Error(
      fmt::format("the text in {} is too short: its longest document {} has {} {}s, and a window takes {} {}s",
                  path.string(), purpose, longest, token, context + 1, token),
      fmt::format("give a file of at least {} {}s, or more files; of tokens, prepare them with --window {}",
                  (context + 1) * TextOptions{}.held_out_one_in, token, context + 1));
}

}  // namespace

Text::Text(const Options& options)
    : paths(paths_of(options)),
      corpus(open_known(options)),
      of_bytes(corpus.tokenizer && token_text::of_bytes(*corpus.tokenizer)),
      training(windows(corpus.training, paths[0], "to learn from", token_name(), options.batch, options.seed)),
      held_out(windows(corpus.validation, paths[0], "to hold out", token_name(), held_out_batch, options.seed)) {}

template <class Look>
void Text::each_validated(TokenBatch& batch, const Look& look) const {
  const Index batches = std::min<Index>(32, held_out.windows());
  for (Index i = 0; i < batches; ++i) {
    held_out.at(i * held_out.windows() / batches, batch);
    look();
  }
}

double Text::validate(AnyTrainer& trainer, TokenBatch& batch) const {
  double total = 0;
  Index tokens = 0;
  each_validated(batch, [&] {
    total += trainer.loss(batch) * static_cast<double>(batch.tokens.size());
    tokens += static_cast<Index>(batch.tokens.size());
  });
  return total / static_cast<double>(tokens);
}

double Text::bytes_per_token(TokenBatch& batch) const {
  if (!corpus.tokenizer) return std::numeric_limits<double>::quiet_NaN();
  const std::span<const std::int32_t> specials = corpus.tokenizer->specials();
  std::size_t bytes = 0, tokens = 0;
  each_validated(batch, [&] {
    for (const std::int32_t label : batch.labels) {
      if (std::ranges::find(specials, label) == specials.end()) bytes += corpus.tokenizer->bytes(label).size();
    }
    tokens += batch.labels.size();
  });
  return static_cast<double>(bytes) / static_cast<double>(tokens);
}

}  // namespace train_lm
