// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/report/svg.hpp
/// Elements of SVG and HTML as text that any XML parser accepts, whatever bytes the names and values come from.
///
///     element("text", {{"x", svg_number(4)}}, xml_escaped("a < b"))   ->   <text x="4">a &lt; b</text>

#include <simplx/core/target.hpp>

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace simplx::inline SIMPLX_TARGET {

/// The bytes of one character at the front of `text` if it is UTF-8 and XML allows it, otherwise 0.
inline std::size_t xml_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0);
  if (first < 0x80) return first >= 0x20 || first == '\t' || first == '\n' || first == '\r' ? 1 : 0;
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  std::uint32_t code = first & (0x7Fu >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0u) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  return first < 0xC0 || first > 0xF4 || code < least[size] || code > 0x10FFFF || surrogate || (code & 0xFFFE) == 0xFFFE
             ? 0
             : size;
}

/// Text for the content of an element or an attribute; what is no character becomes U+FFFD.
inline std::string xml_escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  while (!text.empty()) {
    const std::size_t size = xml_character(text);
    switch (text[0]) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\r':
        out += "&#13;";
        break;  // a parser would make it a line feed
      default:
        out += size ? text.substr(0, size) : "\xEF\xBF\xBD";
    }
    text.remove_prefix(size ? size : 1);
  }
  return out;
}

/// A coordinate: hundredths of a pixel, no exponent, no trailing zeros. What is not finite has no place in a drawing.
inline std::string svg_number(double value) {
  if (!std::isfinite(value)) return "0";
  std::string text = fmt::format("{:.2f}", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

using XmlAttributes = std::initializer_list<std::pair<std::string_view, std::string_view>>;

/// An element around content that is markup already; values of attributes are escaped here.
inline std::string element(std::string_view name, XmlAttributes attributes, std::string_view content = {}) {
  std::string text = "<";
  text += name;
  for (const auto& [key, value] : attributes) text += fmt::format(" {}=\"{}\"", key, xml_escaped(value));
  // HTML closes by itself only what never has content.
  const bool empty = name == "meta" || name == "img" || name == "br";
  return text += empty ? std::string(" />") : fmt::format(">{}</{}>", content, name);
}

/// A file as an address that holds all of it, "data:image/svg+xml;base64,...".
inline std::string data_address(std::string_view type, std::string_view bytes) {
  constexpr const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text = fmt::format("data:{};base64,", type);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k)
      three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k) text += i + k <= bytes.size() ? digits[three >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

}  // namespace simplx
