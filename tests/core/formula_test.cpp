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
  CHECK(max(a, Formula()).text == "max(a, 0)");
}
