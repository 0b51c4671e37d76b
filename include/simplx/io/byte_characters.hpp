// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/byte_characters.hpp
/// Bytes as the characters that stand for them in the files of tokenizers: those that are printed for themselves, the
/// others, in their order, for U+0100 and what follows. A space is U+0120.
///
/// Source  openai/gpt-2, src/encoder.py, bytes_to_unicode

#include <simplx/core/target.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace simplx::inline SIMPLX_TARGET::detail {

inline constexpr std::array<char32_t, 256> byte_characters = [] {
  std::array<char32_t, 256> characters{};
  char32_t other = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool is_printed = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    characters[byte] = is_printed ? byte : other++;
  }
  return characters;
}();

/// All bytes in the order of their characters.
inline constexpr std::array<std::uint8_t, 256> bytes_by_character = [] {
  std::array<std::uint8_t, 256> bytes{};
  for (std::size_t i = 0; i < 256; ++i) bytes[i] = static_cast<std::uint8_t>(i);
  std::sort(bytes.begin(), bytes.end(),
            [](std::uint8_t a, std::uint8_t b) { return byte_characters[a] < byte_characters[b]; });
  return bytes;
}();

/// Bytes as their characters, in UTF-8.
inline std::string as_characters(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    const char32_t c = byte_characters[static_cast<std::uint8_t>(byte)];
    if (c >= 0x80) text += static_cast<char>(0xC0 | c >> 6);
    text += static_cast<char>(c < 0x80 ? c : 0x80 | (c & 0x3F));
  }
  return text;
}

/// The bytes of such characters; none if there are others in the text.
inline std::optional<std::string> as_bytes(std::string_view text) {
  static constexpr auto bytes = [] {
    std::array<std::int16_t, 0x200> of{};
    of.fill(-1);
    for (std::int16_t byte = 0; byte < 256; ++byte) of[byte_characters[static_cast<std::size_t>(byte)]] = byte;
    return of;
  }();
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto at = [&](std::size_t place) { return static_cast<std::uint8_t>(text[place]); };
    std::size_t c = at(i);
    if (c >= 0x80) {
      if (c < 0xC2 || c > 0xC7 || i + 1 == text.size() || (at(i + 1) & 0xC0) != 0x80) return {};
      c = (c & 0x1F) << 6 | (at(++i) & 0x3F);
    }
    if (bytes[c] < 0) return {};
    result += static_cast<char>(bytes[c]);
  }
  return result;
}

}  // namespace simplx::detail
