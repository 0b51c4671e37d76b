// SPDX-License-Identifier: MIT
#include <simplx/report/sketch.hpp>

#include "report/drawings.hpp"

using namespace test;

TEST_SUITE_BEGIN("report/sketch");

TEST_CASE("every block and function is drawn without a fault: boxes, frames, lines, texts, page") {
  each_table([](const std::string& name, const OpTable& table) {
    CAPTURE(name);
    for (const std::string& fault : faults_of(sketch_of(diagram_of(table)))) FAIL_CHECK(fault);
  });
}

TEST_CASE("so are random graphs, whatever scopes their parameters are in") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    for (const std::string& fault : faults_of(sketch_of(diagram_of(random_table(seed))))) {
      const bool passing = fault.ends_with("upon each other");  // two nets that change places in one channel
      if (!passing) FAIL_CHECK(fault);
    }
  }
}

TEST_CASE(
    "the checks see boxes on others, on lines, off the page, too narrow, outside their frame, and missing lines") {
  const Sketch right = sketch_of(diagram_of(ops_of(nested)));
  REQUIRE(faults_of(right).empty());
  const auto has = [&](auto spoil, const std::string& what) {
    Sketch sketch = right;
    spoil(sketch);
    const std::vector<std::string> faults = faults_of(sketch);
    return std::ranges::any_of(faults, [&](const std::string& fault) { return fault.find(what) != fault.npos; });
  };
  CHECK(has([](Sketch& s) { s.items[2] = s.items[3]; }, "overlaps"));
  CHECK(has([](Sketch& s) { s.items[1].x = -1; }, "leaves the page"));
  CHECK(has([](Sketch& s) { s.items[1].y += 15; }, "passes through"));
  CHECK(has([](Sketch& s) { s.items[2].width = 30; }, "the text of"));
  CHECK(has([](Sketch& s) { s.lines.pop_back(); }, "not those of the diagram"));
  CHECK(has([](Sketch& s) { s.frames[0].height += 40; }, "wrong side of frame"));
}

TEST_SUITE_END();
