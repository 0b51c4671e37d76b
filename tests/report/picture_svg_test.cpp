// SPDX-License-Identifier: MIT
#include <simplx/report/picture_svg.hpp>

#include "report/drawings.hpp"

#include <cstdio>
#include <cstdlib>

using namespace test;

TEST_SUITE_BEGIN("report/picture_svg");

namespace {
/// The numbers of an attribute, wherever it stands.
std::vector<double> numbers(const std::string& text, const std::string& attribute) {
  std::vector<double> found;
  for (std::size_t at = text.find(attribute + "=\""); at != text.npos; at = text.find(attribute + "=\"", at + 1)) {
    found.push_back(std::atof(text.c_str() + at + attribute.size() + 2));
  }
  return found;
}
}  // namespace

TEST_CASE("what XML gives a meaning is escaped, in titles, names and tips") {
  const Sketch sketch = sketch_of(diagram_of(ops_of([] {
    Expr x = variable("x<y&z", rows_of(Axis::tokens, 8));
    return x > sin(x);
  })));
  const std::string text = svg(sketch, "\"<script>\"");
  CHECK(text.find("<script>") == text.npos);
  CHECK(text.find("<title>&quot;&lt;script&gt;&quot;</title>") != text.npos);
  CHECK(text.find("x<y") == text.npos);
  CHECK(text.find(">x&lt;y&amp;z</text>") != text.npos);
  CHECK(text.find(">a &gt; b</text>") != text.npos);
}

TEST_CASE("y grows downwards: the input is at the bottom, the output at the top, all inside the view") {
  const Sketch sketch = sketch_of(diagram_of(ops_of_layer(mine, 1)));
  const std::string text = svg(sketch, "mine");
  const auto y_of = [&](const std::string& index) {
    const std::size_t label = text.find("<tspan dy=\"3.2\" font-size=\"9.4\">" + index + "</tspan>");
    REQUIRE(label != text.npos);
    return std::atof(text.c_str() + text.find(" y=\"", text.rfind("<text", label)) + 4);
  };
  CHECK(y_of("in") > 0.8 * sketch.height);
  CHECK(y_of("out") < 0.2 * sketch.height);
  for (const char* attribute : {" x", " cx"}) {
    for (const double x : numbers(text, attribute)) CHECK((x >= 0 && x <= sketch.width));
  }
  for (const char* attribute : {" y", " cy"}) {
    for (const double y : numbers(text, attribute)) CHECK((y >= 0 && y <= sketch.height));
  }
}

TEST_CASE("everything of a sketch has its ink") {
  const Sketch sketch = sketch_of(diagram_of(ops_of(nested)));
  const std::string text = svg(sketch, "");
  const auto count = [&](const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  std::size_t boxes = 0, circles = 0, arrows = 0;
  for (const Item& item : sketch.diagram.items) {
    boxes += item.form == Item::Form::box || item.form == Item::Form::gain;
    circles += item.form == Item::Form::circle;
  }
  for (const Line& line : sketch.lines) arrows += line.arrow;
  CHECK(count("<rect") == boxes + sketch.frames.size());
  CHECK(count("<circle") == circles);
  CHECK(count("class=\"line\"") == sketch.lines.size());
  CHECK(count("class=\"tip\"") == arrows);
  CHECK(count(">−</text>") == 1);  // of the difference
  for (const drawing::Frame& frame : sketch.diagram.frames) {
    CHECK(count(">" + plain_text(frame.title) + "</text>") >= 1);
  }
  std::size_t at = 0;
  for (const Line& line : sketch.lines) {
    at = text.find("class=\"line\" d=\"M", at + 1);
    REQUIRE(at != text.npos);
    double x = 0, y = 0;
    REQUIRE(std::sscanf(text.c_str() + at, "class=\"line\" d=\"M%lf %lf", &x, &y) == 2);
    CHECK(x == doctest::Approx(line.points[0].x).epsilon(0.01));
    CHECK(sketch.height - y == doctest::Approx(line.points[0].y).epsilon(0.01));
  }
}

TEST_SUITE_END();
