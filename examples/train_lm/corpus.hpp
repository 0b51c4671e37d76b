// SPDX-License-Identifier: MIT
#pragma once

// The text that programs learn from where none is named, and how a text is told from another.

#include "../token_text.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <simplx/core/random.hpp>
#include <simplx/io/corpus.hpp>

namespace train_lm {

/// The sources of the Python standard library, as Debian installs them; this repository's own sources otherwise.
inline std::filesystem::path default_text() {
  namespace fs = std::filesystem;
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
  throw simplx::Error("no text was given, and the Python standard library is not installed",
                      "name some with --text PATH");
}

/// The text of these paths, or without any the default one.
inline simplx::TokenCorpus open_text(const std::vector<std::filesystem::path>& paths, simplx::CorpusOptions options) {
  if (!paths.empty()) return simplx::open_corpus(paths, options);
  options.text.extensions = {".py", ".hpp", ".cpp"};
  return simplx::open_corpus(std::vector{default_text()}, options);
}

/// A number that another text, another split of it, or other bytes of its tokens would hardly have.
inline std::string fingerprint(const simplx::TokenCorpus& corpus) {
  std::uint64_t key = 0;
  for (const simplx::TokenDocuments* part : {&corpus.training, &corpus.validation}) {
    for (const simplx::Document& document : part->documents) {
      key = simplx::bits(key, static_cast<std::uint64_t>(document.end - document.begin));
      for (simplx::Index i = document.begin; i < document.end; ++i)
        key = simplx::bits(key, static_cast<std::uint64_t>(part->tokens[i]));
    }
    key = simplx::bits(key, part->documents.size());
  }
  if (corpus.tokenizer && !token_text::of_bytes(*corpus.tokenizer)) {
    for (std::int32_t token = 0; token < corpus.tokenizer->size(); ++token)
      key = simplx::key_of(key, corpus.tokenizer->bytes(token));
  }
  return fmt::format("{:016x}", key);
}

}  // namespace train_lm
