// SPDX-License-Identifier: MIT
#include <simplx/report/svg.hpp>

#include <doctest/doctest.h>

using namespace simplx;

TEST_SUITE_BEGIN("report/svg");

TEST_CASE("markup in text is text") {
  CHECK(xml_escaped("a < b && \"c\" > 'd'") == "a &lt; b &amp;&amp; &quot;c&quot; &gt; 'd'");
  CHECK(xml_escaped("]]><!-- x -->") == "]]&gt;&lt;!-- x --&gt;");
  CHECK(xml_escaped("one\r\n\ttwo") == "one&#13;\n\ttwo");
}

TEST_CASE("characters of all planes stay, what is none of XML becomes U+FFFD byte by byte") {
  for (const char* good : {"\x7f", "ä", "€", "😀", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbd", "\xf4\x8f\xbf\xbd"}) {
    CHECK(xml_escaped(good) == good);
  }
  const std::string bad = "\xEF\xBF\xBD";
  CHECK(xml_escaped(std::string_view("\0\x1b\x08", 3)) == bad + bad + bad);
  CHECK(xml_escaped("\xff<") == bad + "&lt;");
  CHECK(xml_escaped("\x80") == bad);                      // a continuation of nothing
  CHECK(xml_escaped("\xc3") == bad);                      // cut off at the end
  CHECK(xml_escaped("\xe2\x82<") == bad + bad + "&lt;");  // and by markup, which must not be swallowed
  CHECK(xml_escaped("\xc0\xbc") == bad + bad);            // "<" in more bytes than it takes
  CHECK(xml_escaped("\xe0\x80\xbc") == bad + bad + bad);
  CHECK(xml_escaped("\xed\xa0\x80") == bad + bad + bad);            // a surrogate
  CHECK(xml_escaped("\xef\xbf\xbe") == bad + bad + bad);            // U+FFFE
  CHECK(xml_escaped("\xf4\x90\x80\x80") == bad + bad + bad + bad);  // past the last plane
}

TEST_CASE("any two bytes give what XML allows") {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string text = {static_cast<char>(first), static_cast<char>(second)};
      std::string_view rest;
      const std::string escaped = xml_escaped(text);
      for (rest = escaped; !rest.empty() && xml_character(rest);) rest.remove_prefix(xml_character(rest));
      REQUIRE(rest.empty());
      REQUIRE(escaped.find_first_of("<>\"\r") == std::string::npos);
    }
  }
}

TEST_CASE("coordinates are short decimals, and never a word") {
  CHECK(svg_number(4) == "4");
  CHECK(svg_number(-1.5) == "-1.5");
  CHECK(svg_number(1.0 / 3) == "0.33");
  CHECK(svg_number(1200) == "1200");
  CHECK(svg_number(1e9) == "1000000000");
  CHECK(svg_number(-0.001) == "0");
  for (const double value : {HUGE_VAL, -HUGE_VAL, std::nan("")}) CHECK(svg_number(value) == "0");
}

TEST_CASE("elements escape their attributes, and close as HTML wants it") {
  CHECK(element("text", {{"x", svg_number(4)}}, xml_escaped("a < b")) == "<text x=\"4\">a &lt; b</text>");
  CHECK(element("i", {{"title", "\"><script>"}}) == "<i title=\"&quot;&gt;&lt;script&gt;\"></i>");
  CHECK(element("br", {}) == "<br />");
}

TEST_CASE("a file as an address, by the examples of RFC 4648") {
  const char* encoded[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
  for (std::size_t size = 0; size <= 6; ++size) {
    CHECK(data_address("text/plain", std::string_view("foobar", size)) ==
          std::string("data:text/plain;base64,") + encoded[size]);
  }
  CHECK(data_address("x", "\xff\xef\xbe") == "data:x;base64,/+++");
}

TEST_SUITE_END();
