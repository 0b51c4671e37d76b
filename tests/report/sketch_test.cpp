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
    for (const std::string& fault : faults_of(sketch_of(diagram_of(random_table(seed))))) FAIL_CHECK(fault);
  }
}

TEST_SUITE_END();
