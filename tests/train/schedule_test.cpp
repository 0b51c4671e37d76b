// SPDX-License-Identifier: MIT
#include <simplx/train/schedule.hpp>

#include <doctest/doctest.h>

using namespace simplx;

TEST_SUITE_BEGIN("train/schedule");

TEST_CASE("the rate rises linearly, peaks, and falls linearly to the floor") {
  const LinearSchedule s{.peak = 2, .warmup = 4, .total = 14, .floor = 1};
  CHECK(s.at(0) == doctest::Approx(0.5));
  CHECK(s.at(3) == doctest::Approx(2));
  CHECK(s.at(4) == doctest::Approx(2));     // 10 of 10 decrements left
  CHECK(s.at(9) == doctest::Approx(1.5));   // half way down
  CHECK(s.at(14) == doctest::Approx(1));
  CHECK(s.at(99) == doctest::Approx(1));
}

TEST_CASE("without warm-up the first step has the peak") {
  CHECK(LinearSchedule{.peak = 3, .warmup = 0, .total = 2}.at(0) == doctest::Approx(3));
  CHECK(LinearSchedule{.peak = 3, .warmup = 0, .total = 2}.at(1) == doctest::Approx(1.5));
}

TEST_SUITE_END();
