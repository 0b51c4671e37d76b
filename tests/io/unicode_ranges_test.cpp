// SPDX-License-Identifier: MIT
#include <simplx/io/unicode_ranges.hpp>

#include <doctest/doctest.h>

#include <span>

using namespace simplx;

TEST_SUITE_BEGIN("io/unicode_ranges");

TEST_CASE("ranges are in order, apart, and of known characters") {
  for (const std::span<const detail::CharacterRange> ranges :
       {std::span<const detail::CharacterRange>(detail::letter_ranges), {detail::number_ranges}}) {
    char32_t count = 0, before = 0;
    for (const auto& [first, last] : ranges) {
      CHECK(first > before + (count > 0));
      CHECK(last >= first);
      count += last - first + 1, before = last;
    }
    CHECK(before < 0x110000);
    CHECK(count == (ranges.data() == detail::letter_ranges ? 131'756 : 1'791));  // of Unicode 14
  }
}

TEST_SUITE_END();
