// SPDX-License-Identifier: MIT
#pragma once

// Tokens as text to look at.

#include <simplx/generate/utf8.hpp>
#include <simplx/io/tokenizer.hpp>

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

}  // namespace token_text
