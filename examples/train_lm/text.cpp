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

Corpus read(const Options& options, const std::vector<fs::path>& paths) {
  using Extensions = std::vector<std::string>;
  return read_text(paths, {.extensions = options.text.empty() ? Extensions{".py", ".hpp", ".cpp"} : Extensions{}});
}

/// The documents, if they have a single window; otherwise says how much would do.
const std::vector<Document>& long_enough(const std::vector<Document>& documents, const fs::path& path, const char* purpose) {
  Index longest = 0;
  for (const Document& document : documents) longest = std::max(longest, document.end - document.begin);
  if (longest > context) return documents;
  throw Error(fmt::format("the text in {} is too short: its longest document {} has {} bytes, and a window takes {} bytes",
                          path.string(), purpose, longest, context + 1),
              fmt::format("give a file of at least {} bytes, or more files", (context + 1) * TextOptions{}.held_out_one_in));
}

}  // namespace

Text::Text(const Options& options)
    : paths(options.text.empty() ? std::vector{default_text()} : options.text),
      corpus(read(options, paths)),
      training(corpus, long_enough(corpus.training, paths[0], "to learn from"), context, options.batch, options.seed),
      held_out(corpus, long_enough(corpus.validation, paths[0], "to hold out"), context, held_out_batch, options.seed) {}

std::string Text::fingerprint() const {
  std::uint64_t key = key_of(0, {reinterpret_cast<const char*>(corpus.bytes.data()), corpus.bytes.size()});
  for (const auto* documents : {&corpus.training, &corpus.validation}) {
    for (const Document& document : *documents) key = bits(key, static_cast<std::uint64_t>(document.begin));
    key = bits(key, documents->size());
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
