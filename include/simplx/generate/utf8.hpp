// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/generate/utf8.hpp
/// Bytes of a model as text that a terminal can be given: well-formed UTF-8 (RFC 3629) passes, whole characters at a
/// time; what is none, and control characters but tab and newline, becomes U+FFFD.

#include <simplx/core/target.hpp>

#include <cstdint>
#include <string>

namespace simplx::inline SIMPLX_TARGET {

/// Takes bytes one by one; a character comes out with its last byte.
class Utf8 {
 public:
  /// What can be shown now: often nothing, or one character; two where a byte ends another's hopes.
  std::string put(std::uint8_t byte) {
    std::string shown;
    if (missing_ > 0 && (byte < low_ || byte > high_)) shown = end();
    if (missing_ > 0) {
      character_ += static_cast<char>(byte);
      low_ = 0x80, high_ = 0xBF;
      if (--missing_ == 0) {
        const bool control = character_.size() == 2 && character_[0] == '\xC2' && byte < 0xA0;
        shown += control ? replacement : character_;
        character_.clear();
      }
      return shown;
    }
    if (byte < 0x80) {
      const bool control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
      return shown + (control ? std::string(replacement) : std::string(1, static_cast<char>(byte)));
    }
    if (byte < 0xC2 || byte > 0xF4) return shown + replacement;
    missing_ = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
    low_ = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;   // no overlong forms
    high_ = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;  // no surrogates, nothing above U+10FFFF
    character_ = static_cast<char>(byte);
    return shown;
  }
  /// What is left of a character that did not come to its end.
  std::string end() {
    const bool broken = missing_ > 0;
    missing_ = 0;
    character_.clear();
    return broken ? replacement : "";
  }

 private:
  static constexpr const char* replacement = "\xEF\xBF\xBD";
  int missing_ = 0;
  std::uint8_t low_ = 0x80, high_ = 0xBF;  ///< what the next byte may be
  std::string character_;
};

}  // namespace simplx
