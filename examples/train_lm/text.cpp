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

/// Windows of a part of the text; if it has not a single one, says how much would do.
Batches windows(const TokenDocuments& part, const fs::path& path, const char* purpose, Index batch,
                std::uint64_t seed) {
  Index longest = 0;
  for (const Document& document : part.documents) longest = std::max(longest, document.end - document.begin);
  if (longest > context) {
    return {part.tokens, part.documents, {.context = context, .sequences = batch, .seed = seed}};
  }
  throw Error(
      fmt::format("the text in {} is too short: its longest document {} has {} bytes, and a window takes {} bytes",
                  path.string(), purpose, longest, context + 1),
      fmt::format("give a file of at least {} bytes, or more files; of tokens, prepare them with --window {}",
                  (context + 1) * TextOptions{}.held_out_one_in, context + 1));
}

}  // namespace

Text::Text(const Options& options)
    : paths(paths_of(options)),
      corpus(open_text(options.text, {.window = context + 1, .except = results_of(options)})),
      training(windows(corpus.training, paths[0], "to learn from", options.batch, options.seed)),
      held_out(windows(corpus.validation, paths[0], "to hold out", held_out_batch, options.seed)) {}

double Text::validate(AnyTrainer& trainer, TokenBatch& batch) const {
  const Index batches = std::min<Index>(32, held_out.windows());
  double total = 0;
  Index tokens = 0;
  for (Index i = 0; i < batches; ++i) {
    held_out.at(i * held_out.windows() / batches, batch);
    total += trainer.loss(batch) * static_cast<double>(batch.tokens.size());
    tokens += static_cast<Index>(batch.tokens.size());
  }
  return total / static_cast<double>(tokens);
}

}  // namespace train_lm
