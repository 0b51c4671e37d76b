// SPDX-License-Identifier: MIT
#include <simplx/generate/utf8.hpp>

#include <doctest/doctest.h>

namespace {
std::string shown(const std::string& bytes) {
  simplx::Utf8 text;
  std::string all;
  for (const char byte : bytes) all += text.put(static_cast<std::uint8_t>(byte));
  return all + text.end();
}
const std::string bad = "\xEF\xBF\xBD";
}  // namespace

TEST_CASE("generate/utf8: characters of every length pass, and come whole") {
  const std::string text = "a\tb\n\u00e9 \u20ac \ud7ff \ue000 \U0001F600 \U0010FFFF~";
  CHECK(shown(text) == text);
  simplx::Utf8 euro;
  CHECK(euro.put(0xE2).empty());
  CHECK(euro.put(0x82).empty());
  CHECK(euro.put(0xAC) == "\u20ac");
  CHECK(euro.end().empty());
}

TEST_CASE("generate/utf8: control characters and what is no UTF-8 cannot reach the terminal") {
  CHECK(shown("\x1b[2J") == bad + "[2J");
  CHECK(shown(std::string("a\0b\r\x7f", 5)) == "a" + bad + "b" + bad + bad);
  CHECK(shown("\xC2\x9B") == bad);          // CSI of C1
  CHECK(shown("\xC2\xA0") == "\xC2\xA0");
  CHECK(shown("\x80x\xFF") == bad + "x" + bad);
  CHECK(shown("\xC0\xAF") == bad + bad);      // overlong
  CHECK(shown("\xE0\x80\xAF") == bad + bad + bad);
  CHECK(shown("\xED\xA0\x80") == bad + bad + bad);  // a surrogate
  CHECK(shown("\xF4\x90\x80\x80") == bad + bad + bad + bad);
  CHECK(shown("\xE2\x82" "A") == bad + "A");   // unfinished, then something else
  CHECK(shown("\xE2\x82\xC3\xA9") == bad + "\u00e9");
  CHECK(shown("\xF0\x9F") == bad);             // unfinished at the end
}
