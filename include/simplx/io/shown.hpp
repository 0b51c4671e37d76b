// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/shown.hpp
/// Texts of files that anybody may have written, as refusals show them.

#include <simplx/core/target.hpp>

#include <algorithm>
#include <string>
#include <string_view>

namespace simplx::inline SIMPLX_TARGET::detail {

/// A text from a file, fit for a terminal: without control characters, and no longer than a line.
inline std::string shown(std::string_view text) {
  constexpr std::size_t longest = 80;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  std::size_t end = std::min(text.size(), longest);
  const bool cut = end < text.size();
  for (int i = 0; cut && i < 3 && (byte(end) & 0xC0) == 0x80; ++i) --end;  // not within a character of UTF-8
  std::string line;
  for (std::size_t i = 0; i < end; ++i) {
    const bool second_set = byte(i) == 0xC2 && i + 1 < end && byte(i + 1) >= 0x80 && byte(i + 1) < 0xA0;  // U+0080...
    line += second_set || byte(i) < 32 || byte(i) == 127 ? '?' : text[i];
    if (second_set) ++i;
  }
  return "'" + line + (cut ? "...'" : "'");
}

}  // namespace simplx::detail
