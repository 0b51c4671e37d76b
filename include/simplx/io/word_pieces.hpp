// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/word_pieces.hpp
/// A text as pieces that no token reaches across: words and numbers, each with the space before it, signs, and white
/// space. Of GPT-2's regular expression the first alternative that fits is taken, as far as it goes:
///
///     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///
/// so that of several spaces the last one belongs to the word behind it: "of  the" is "of", " ", " the". A byte that is
/// no part of a character in UTF-8 (RFC 3629) is a sign.
///
/// Source  Radford et al. 2019, Sec. 2.2, and openai/gpt-2, src/encoder.py

#include <simplx/io/unicode_ranges.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <string_view>

namespace simplx::inline SIMPLX_TARGET::detail {

enum class CharacterKind : signed char { letter, number, space, sign };

/// A character of a text: what it is, and how many bytes it takes.
struct Character {
  CharacterKind kind;
  std::size_t bytes;
};

constexpr bool in_ranges(std::span<const CharacterRange> ranges, char32_t c) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), c,
                                      [](char32_t value, const CharacterRange& range) { return value < range.first; });
  return after != ranges.begin() && c <= std::prev(after)->last;
}

/// Spaces are those of Unicode's property White_Space.
constexpr CharacterKind kind_of(char32_t c) {
  const bool space = (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
                     (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
                     c == 0x3000;
  if (space) return CharacterKind::space;
  if (in_ranges(letter_ranges, c)) return CharacterKind::letter;
  return in_ranges(number_ranges, c) ? CharacterKind::number : CharacterKind::sign;
}

/// The character at the beginning of a text that is not empty.
constexpr Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto lead = byte(0);
  if (lead < 0x80) return {kind_of(lead), 1};
  const Character broken{CharacterKind::sign, 1};
  if (lead < 0xC2 || lead > 0xF4) return broken;
  const std::size_t count = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < count) return broken;
  char32_t c = lead & (0x7Fu >> count);
  for (std::size_t i = 1; i < count; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return broken;
    c = c << 6 | (byte(i) & 0x3Fu);
  }
  const bool overlong = c < (count == 3 ? 0x800u : count == 4 ? 0x10000u : 0x80u);
  const bool surrogate = c >= 0xD800 && c <= 0xDFFF;
  return overlong || surrogate || c > 0x10FFFF ? broken : Character{kind_of(c), count};
}

/// The bytes of the piece that a text begins with; 0 of an empty one.
constexpr std::size_t first_piece(std::string_view text) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.starts_with(ending)) return ending.size();
  }
  if (text.empty()) return 0;
  std::size_t end = 0;
  const auto next = [&] { return first_character(text.substr(end)); };
  if (text[0] == ' ' && text.size() > 1 && first_character(text.substr(1)).kind != CharacterKind::space) end = 1;
  const CharacterKind kind = next().kind;
  std::size_t last = end;  // where the last character begins
  while (end < text.size() && next().kind == kind) last = end, end += next().bytes;
  const bool gives_back = kind == CharacterKind::space && end < text.size() && last > 0;
  return gives_back ? last : end;
}

}  // namespace simplx::detail
