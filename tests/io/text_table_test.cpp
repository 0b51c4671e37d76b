// SPDX-License-Identifier: MIT
#include <simplx/io/text_table.hpp>

#include <doctest/doctest.h>

using namespace simplx;

TEST_CASE("io/text_table: columns are as wide as what is in them, and no line ends in spaces") {
  const std::vector<std::array<std::string, 3>> rows{{"", "the run", "now"}, {"width", "8", "16"}, {"a", "-", ""}};
  CHECK(detail::text_table(rows) == "\n         the run  now\n  width  8        16\n  a      -");
}
