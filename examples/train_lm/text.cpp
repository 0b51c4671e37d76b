// SPDX-License-Identifier: MIT
#include "text.hpp"

#include <simplx/core/random.hpp>

#include <fmt/format.h>

#include <cstdlib>

namespace train_lm {

using namespace simplx;
namespace fs = std::filesystem;

namespace {

/// The sources of the Python standard library, as Debian installs them; this repository's own sources otherwise.
fs::path default_text() {
  const std::string prefix = "python3.";
  int newest = -1;  // as a number: 3.9 is older than 3.11
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/usr/lib", error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || !fs::exists(entry.path() / "os.py")) continue;
    newest = std::max(newest, std::atoi(name.c_str() + prefix.size()));
  }
  if (newest >= 0) return fmt::format("/usr/lib/{}{}", prefix, newest);
  if (fs::exists(SIMPLX_SOURCE_DIR)) return SIMPLX_SOURCE_DIR;
  throw Error("no text was given, and the Python standard library is not installed", "name some with --text PATH");
}

TokenCorpus open(const Options& options, const std::vector<fs::path>& paths) {
  CorpusOptions corpus;
  if (options.text.empty()) corpus.text.extensions = {".py", ".hpp", ".cpp"};
  return open_corpus(paths, corpus);
}

/// Windows of a part of the text; if it has not a single one, says how much would do.
Batches windows(const TokenDocuments& part, const fs::path& path, const char* purpose, Index batch,
                std::uint64_t seed) {
  Index longest = 0;
  for (const Document& document : part.documents) longest = std::max(longest, document.end - document.begin);
  if (longest > context) return {part.tokens, part.documents, context, batch, seed};
  throw Error(
      fmt::format("the text in {} is too short: its longest document {} has {} bytes, and a window takes {} bytes",
                  path.string(), purpose, longest, context + 1),
      fmt::format("give a file of at least {} bytes, or more files", (context + 1) * TextOptions{}.held_out_one_in));
}

}  // namespace

Text::Text(const Options& options)
    : paths(options.text.empty() ? std::vector{default_text()} : options.text),
      corpus(open(options, paths)),
      training(windows(corpus.training, paths[0], "to learn from", options.batch, options.seed)),
      held_out(windows(corpus.validation, paths[0], "to hold out", held_out_batch, options.seed)) {}

std::string Text::fingerprint() const {
  std::uint64_t key = 0;
  for (const TokenDocuments* part : {&corpus.training, &corpus.validation}) {
    for (const Document& document : part->documents) {
      key = bits(key, static_cast<std::uint64_t>(document.end - document.begin));
      for (Index i = document.begin; i < document.end; ++i)
        key = bits(key, static_cast<std::uint64_t>(part->tokens[i]));
    }
    key = bits(key, part->documents.size());
  }
  return fmt::format("{:016x}", key);
}

double Text::validate(Learner& learner, TokenBatch& batch) const {
  const Index batches = std::min<Index>(32, held_out.windows());
  double total = 0;
  Index tokens = 0;
  for (Index i = 0; i < batches; ++i) {
    held_out.at(i * held_out.windows() / batches, batch);
    total += learner.loss(batch) * static_cast<double>(batch.tokens.size());
    tokens += static_cast<Index>(batch.tokens.size());
  }
  return total / static_cast<double>(tokens);
}

}  // namespace train_lm
