// SPDX-License-Identifier: MIT
#include <simplx/io/unicode_ranges.hpp>

#include <doctest/doctest.h>

#include <span>

using namespace simplx;

TEST_SUITE_BEGIN("io/unicode_ranges");

TEST_CASE("ranges are in order, apart, and of all letters and numbers of Unicode 16") {
  for (const std::span<const detail::CharacterRange> ranges :
       {std::span<const detail::CharacterRange>(detail::letter_ranges), {detail::number_ranges}}) {
    char32_t count = 0, sum = 0, before = 0;
    for (const auto& [first, last] : ranges) {
      CHECK(first > before + (count > 0));
      CHECK(last >= first);
      for (char32_t c = first; c <= last; ++c) ++count, sum = sum * 31 + c;
      before = last;
    }
    CHECK(before < 0x110000);
    // Of the package unicodedata2: tools/make_unicode.py --check has nothing to compare with where it is not installed.
    const bool of_letters = ranges.data() == detail::letter_ranges;
    CHECK(count == (of_letters ? 141'028 : 1'911));
    CHECK(sum == (of_letters ? 0x7C7AA1EAu : 0xC1066893u));
  }
}

TEST_SUITE_END();
