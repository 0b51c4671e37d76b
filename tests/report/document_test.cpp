// SPDX-License-Identifier: MIT
#include <simplx/report/document.hpp>

#include <doctest/doctest.h>

using namespace simplx;

TEST_SUITE_BEGIN("report/document");

TEST_CASE("a section escapes its words, and is left out where nothing follows") {
  CHECK(section("a < b", "c & d", "<b/>") == "<section><h2>a &lt; b</h2><p>c &amp; d</p>\n<b/></section>\n");
  CHECK(section("a", "", "<b/>") == "<section><h2>a</h2>\n<b/></section>\n");
  CHECK(section("a", "b", "").empty());
}

TEST_CASE("a table has a head, rows with a name, and marks its best cells") {
  const std::string table = scrolling_table({"run", "loss"}, {{"x", "1"}, {"<y>", "2"}}, "Losses", "words",
                                            [](std::size_t row, std::size_t) { return row == 1; });
  CHECK(table.find("<th scope=\"col\">loss</th>") != table.npos);
  CHECK(table.find("<th scope=\"row\">&lt;y&gt;</th><td class=\"best\">2</td>") != table.npos);
  CHECK(table.find("best\">1") == table.npos);
  CHECK(table.find("aria-label=\"Losses\"") != table.npos);
}

TEST_CASE("a page is one document that asks for nothing from outside") {
  const std::string page = html_page("a & b", "<p>text</p>", "c < d");
  CHECK(page.starts_with("<!DOCTYPE html>\n<html lang=\"en\""));
  CHECK(page.find("<title>a &amp; b</title>") != page.npos);
  CHECK(page.find("default-src 'none'") != page.npos);
  CHECK(page.find("<main><p>text</p></main>\n<footer>c &lt; d</footer>") != page.npos);
}

TEST_SUITE_END();
