// SPDX-License-Identifier: MIT
#include <simplx/train/step_parts.hpp>

#include <doctest/doctest.h>

using namespace simplx;

TEST_SUITE_BEGIN("train/step_parts");

TEST_CASE("parts add up to a step, whose loss is the mean over its labels") {
  StepParts parts;
  CHECK(parts.empty());
  parts.add(2, 5, 8, 4);
  parts.add_loss(6);
  CHECK_FALSE(parts.empty());
  CHECK(parts.sequences() == 2);
  parts.add(2, 3, 8, 4);
  parts.add_loss(10);
  CHECK(parts.sequences() == 4);
  const StepResult result = parts.take();
  CHECK(result.loss == 2);
  CHECK(result.labelled == 8);
  CHECK(parts.empty());
}

TEST_CASE("a step without labels has no loss") {
  StepParts parts;
  parts.add(1, 0, 0, 1);
  CHECK(parts.take().loss == 0);
}

TEST_CASE("what does not fit is refused, and changes nothing") {
  StepParts parts;
  CHECK_THROWS_WITH_AS(parts.take(), doctest::Contains("there is no gradient to update with"), Error);
  CHECK_THROWS_WITH_AS(parts.add(5, 1, 1, 4), doctest::Contains("a step of 5 sequences for a trainer made for 4"),
                       Error);
  CHECK(parts.empty());
  parts.add(1, 3, 8, 4);
  CHECK_THROWS_WITH_AS(parts.add(1, 3, 9, 4),
                       doctest::Contains("a part of a step of 9 labels follows one of a step of 8"), Error);
  CHECK(parts.sequences() == 1);
}

TEST_CASE("a step with other labels than announced is refused and forgotten") {
  StepParts parts;
  parts.add(1, 3, 8, 4);
  CHECK_THROWS_WITH_AS(parts.take(), doctest::Contains("the step's parts have 3 labels, not 8 as announced"), Error);
  CHECK(parts.empty());
}

TEST_SUITE_END();
