// SPDX-License-Identifier: MIT
#include <simplx/core/formula.hpp>

#include <doctest/doctest.h>

using simplx::Formula;

TEST_CASE("core/formula: brackets where they are needed, and nowhere else") {
  const Formula a("a"), b("b"), c("c");
  CHECK(((a + b) * c).text == "(a + b) * c");
  CHECK((a * b + c).text == "a * b + c");
  CHECK((a - (b - c)).text == "a - (b - c)");
  CHECK((a - b - c).text == "a - b - c");
  CHECK((a / (b * c)).text == "a / (b * c)");
  CHECK((-(a + b) * c).text == "-(a + b) * c");
  CHECK(Formula(0.5).text == "0.5");
  CHECK(Formula(3.0).text == "3");
  CHECK(Formula(1e-8).text == "1e-08");
  CHECK(log(a + 1e-8).text == "log(a + 1e-08)");
  CHECK(Formula(-0.0001).text == "-0.0001");
  CHECK(Formula(100000.0).text == "100000");
  CHECK(Formula(0.1 + 0.2).text == "0.30000000000000004");
  CHECK(max(a, Formula()).text == "max(a, 0)");
}
