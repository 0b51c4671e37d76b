// SPDX-License-Identifier: MIT
#include <simplx/io/shown.hpp>

#include <doctest/doctest.h>

using namespace simplx;

TEST_SUITE_BEGIN("io/shown");

TEST_CASE("names are shown without control characters, and not longer than a line") {
  CHECK(detail::shown("a\x1b[31m\x7f\n") == "'a?[31m?" "?'");
  CHECK(detail::shown(std::string(81, 'n')) == "'" + std::string(80, 'n') + "...'");
  CHECK(detail::shown(std::string(80, 'n')) == "'" + std::string(80, 'n') + "'");
  CHECK(detail::shown("a\xc2\x9b" "31m\xc2\x80\xc2\x9f") == "'a?31m?" "?'");  // control characters of Unicode
  CHECK(detail::shown("\xc2\xa0\xc3\x9b\xc2") == "'\xc2\xa0\xc3\x9b\xc2'");
  // A character stays whole, or is left out; what is none does not take others with it.
  CHECK(detail::shown(std::string(79, 'n') + "\xc3\xa9n") == "'" + std::string(79, 'n') + "...'");
  CHECK(detail::shown(std::string(78, 'n') + "\xc3\xa9n") == "'" + std::string(78, 'n') + "\xc3\xa9...'");
  CHECK(detail::shown(std::string(77, 'n') + "\xf0\x9f\x99\x82") == "'" + std::string(77, 'n') + "...'");
  CHECK(detail::shown(std::string(90, '\xaa')) == "'" + std::string(77, '\xaa') + "...'");
}

TEST_SUITE_END();
