// SPDX-License-Identifier: MIT
#pragma once

// Tokens as text to look at: one text as it comes, several one after the other at their end.

#include <simplx/generate/utf8.hpp>
#include <simplx/core/error.hpp>
#include <simplx/io/tokenizer.hpp>

#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace token_text {

/// Whether token b is byte b.
inline bool of_bytes(const simplx::Tokenizer& tokenizer) {
  bool same = tokenizer.size() == 256;
  for (std::int32_t b = 0; same && b < 256; ++b) same = tokenizer.bytes(b) == std::string(1, static_cast<char>(b));
  return same;
}

/// What can be shown now, with the bytes of a token. A model may draw what its tokenizer does not have: shown as a byte
/// that is in no character.
inline std::string shown(std::int32_t token, const simplx::Tokenizer& tokenizer, simplx::Utf8& text) {
  std::string characters;
  for (const char byte : token < tokenizer.size() ? tokenizer.bytes(token) : "\xFF") {
    characters += text.put(static_cast<std::uint8_t>(byte));
  }
  return characters;
}

/// Writes texts to the standard output.
class Texts {
 public:
  Texts(const simplx::Tokenizer& tokenizer, std::size_t count)
      : tokenizer_(tokenizer), end_(tokenizer.special("<|endoftext|>")), texts_(count) {}

  /// What all begin with.
  void begin(std::span<const std::int32_t> prompt) {
    for (std::size_t s = 0; s < texts_.size(); ++s) {
      for (const std::int32_t token : prompt) put(s, token);
    }
  }
  /// The next token of a text; says whether it could be written.
  bool put(std::size_t text, std::int32_t token) {
    Text& to = texts_[text];
    to.characters += token_text::shown(token, tokenizer_, to.utf8);
    return texts_.size() > 1 || show(std::exchange(to.characters, {}));
  }
  /// Whether a text ends there.
  bool ends(std::int32_t token) const { return token == end_; }
  /// The rest.
  ///
  /// Errors  throws Error if it cannot be written
  void end() {
    bool shown = true;
    for (std::size_t s = 0; s < texts_.size(); ++s) {
      if (s > 0) shown = shown && show("----\n");
      shown = shown && show(texts_[s].characters + texts_[s].utf8.end() + "\n");
    }
    if (!shown) throw simplx::Error("the text cannot be written", "is the disk full?");
  }

 private:
  struct Text {
    simplx::Utf8 utf8;
    std::string characters;  ///< that are not shown yet
  };
  static bool show(const std::string& characters) {
    return std::fwrite(characters.data(), 1, characters.size(), stdout) == characters.size() &&
           std::fflush(stdout) == 0;
  }

  const simplx::Tokenizer& tokenizer_;
  std::optional<std::int32_t> end_;
  std::vector<Text> texts_;
};

}  // namespace token_text
