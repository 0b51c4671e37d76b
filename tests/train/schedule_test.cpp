// SPDX-License-Identifier: MIT
#include <simplx/train/schedule.hpp>

#include <doctest/doctest.h>

#include <limits>

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

TEST_CASE("a cosine has the peak, the middle and the floor where the line has them, and is flat at both ends") {
  const CosineSchedule c{.peak = 2, .warmup = 4, .total = 14, .floor = 1};
  CHECK(c.at(0) == 0.5);
  CHECK(c.at(3) == 2);
  CHECK(c.at(4) == 2);
  CHECK(c.at(9) == doctest::Approx(1.5).epsilon(1e-15));
  CHECK(c.at(5) == doctest::Approx(1 + (1 + std::cos(std::numbers::pi / 10)) / 2).epsilon(1e-15));
  CHECK(c.at(14) == 1);
  CHECK(c.at(99) == 1);
  for (long step = 4; step < 14; ++step) CHECK(c.at(step) > c.at(step + 1));
  CHECK(c.at(4) - c.at(5) < 0.3 * (c.at(8) - c.at(9)));
  CHECK(c.at(13) - c.at(14) == doctest::Approx(c.at(4) - c.at(5)));
  CHECK(CosineSchedule{.peak = 3, .warmup = 0, .total = 2}.at(0) == 3);
  CHECK(CosineSchedule{.peak = 3, .warmup = 0, .total = 2}.at(1) == doctest::Approx(1.5));
}

TEST_CASE("a constant rate rises once and stays") {
  const ConstantSchedule s{.peak = 2, .warmup = 2};
  CHECK(s.at(0) == 1);
  CHECK(s.at(1) == 2);
  CHECK(s.at(1000000) == 2);
  CHECK(ConstantSchedule{.peak = 5}.at(0) == 5);
}

TEST_CASE("a warm-up may start above zero: the triangle of [He & Hofmann 2024, App. D.2] from a quarter") {
  const LinearSchedule s{.peak = 4, .warmup = 75, .total = 100, .start = 1};
  CHECK(s.at(24) == 2);  // a third of the way from 1 to 4
  CHECK(s.at(74) == 4);
  CHECK(s.at(75) == 4);
  CHECK(s.at(99) == doctest::Approx(4.0 / 25));
  CHECK(CosineSchedule{.peak = 4, .warmup = 75, .total = 100, .start = 1}.at(24) == 2);
  CHECK(ConstantSchedule{.peak = 4, .warmup = 75, .start = 1}.at(24) == 2);
}

TEST_CASE("rates that are none, and steps that cannot be counted, are refused by name") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto refuses = [](auto schedule, const char* what) {
    CHECK_THROWS_WITH_AS(schedule.at(0), doctest::Contains(what), Error);
  };
  refuses(ConstantSchedule{.peak = nan}, "ConstantSchedule's peak is nan");
  refuses(ConstantSchedule{.peak = -1}, "ConstantSchedule's peak is -1");
  refuses(ConstantSchedule{.warmup = -5}, "ConstantSchedule's warmup is -5");
  refuses(ConstantSchedule{.start = nan}, "ConstantSchedule's start is nan");
  refuses(LinearSchedule{.peak = nan}, "LinearSchedule's peak is nan");
  refuses(LinearSchedule{.warmup = -1}, "LinearSchedule's warmup is -1");
  refuses(LinearSchedule{.floor = nan}, "LinearSchedule's floor is nan");
  refuses(CosineSchedule{.total = -2}, "CosineSchedule's total is -2");
  refuses(CosineSchedule{.start = std::numeric_limits<double>::infinity()}, "CosineSchedule's start is inf");
  CHECK_THROWS_WITH_AS((LinearSchedule{.warmup = 10, .total = 50}.at(-20)),
                       doctest::Contains("the step that LinearSchedule is asked for is -20"), Error);
  refuses(LinearSchedule{.peak = 1e-3}, "LinearSchedule's total is 0, its warmup 0");  // forgotten
  refuses(CosineSchedule{.warmup = 100, .total = 50}, "CosineSchedule's total is 50, its warmup 100");
  CHECK(CosineSchedule{.peak = 1, .warmup = 50, .total = 50}.at(49) == 1);
}

TEST_SUITE_END();
