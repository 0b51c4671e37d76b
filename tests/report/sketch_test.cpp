// SPDX-License-Identifier: MIT
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
      if (!fault.ends_with("upon each other")) FAIL_CHECK(fault);  // two nets may want to pass each other in one channel
    }
  }
}

TEST_CASE("the checks above see a box on another, a box off the page, a box on a line, a narrow box, a line that is gone") {
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
