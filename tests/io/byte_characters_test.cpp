// SPDX-License-Identifier: MIT
#include <simplx/io/byte_characters.hpp>

#include <doctest/doctest.h>

#include <set>

using namespace simplx;
using detail::as_characters, detail::as_bytes;

TEST_SUITE_BEGIN("io/byte_characters");

TEST_CASE("every byte has a character of its own, which is the byte where that is printed") {
  std::set<std::string> characters;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string bytes(1, static_cast<char>(byte)), character = as_characters(bytes);
    characters.insert(character);
    CHECK(as_bytes(character) == bytes);
    if (byte > 0x20 && byte < 0x7F) CHECK(character == bytes);
  }
  CHECK(characters.size() == 256);
  CHECK(as_characters(" the\n") == "ĠtheĊ");
  CHECK(as_characters("é\xAD\xFF") == "Ã©Ń\u00FF");
  CHECK(as_bytes("ĠtheĊ") == " the\n");
}

TEST_CASE("bytes in the order of their characters") {
  std::set<int> bytes;
  for (std::size_t i = 0; i < 256; ++i) {
    bytes.insert(detail::bytes_by_character[i]);
    if (i > 0) {
      CHECK(detail::byte_characters[detail::bytes_by_character[i - 1]] <
            detail::byte_characters[detail::bytes_by_character[i]]);
    }
  }
  CHECK(bytes.size() == 256);
  CHECK(detail::bytes_by_character[0] == '!');
  CHECK(detail::bytes_by_character[255] == 0xAD);
}

TEST_CASE("other characters stand for no bytes") {
  for (const char* text : {"a b", "\n", "漢", "\u0144", "\u01FF", "\u0200", "\xC4", "Ġ\xC4", "\xC4""a", "\xFF", "\xC0\xA1"}) {
    CAPTURE(text);
    CHECK_FALSE(as_bytes(text).has_value());
  }
  CHECK(as_bytes("") == "");
  CHECK(as_bytes("\u0143") == "\xAD");  // the last of them
}

TEST_SUITE_END();
