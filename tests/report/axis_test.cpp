// SPDX-License-Identifier: MIT
#include <simplx/report/axis.hpp>

#include <doctest/doctest.h>

#include <random>
#include <set>

using namespace simplx;

namespace {
constexpr double none = std::numeric_limits<double>::quiet_NaN();

/// A value is round if its decimal form has at most three digits that are not trailing zeros.
bool is_round(double value) {
  if (value == 0) return true;
  const double digits = std::abs(value) / std::pow(10, std::floor(std::log10(std::abs(value))) - 2);
  return std::abs(digits - std::round(digits)) < 1e-6;
}
}  // namespace

TEST_SUITE_BEGIN("report/axis");

TEST_CASE("an axis goes from 0 to 1, by the value or by its logarithm") {
  const AxisRange linear{2, 6}, logarithmic{1, 100, Scale::logarithmic};
  CHECK(linear.at(2) == 0);
  CHECK(linear.at(3) == 0.25);
  CHECK(linear.at(6) == 1);
  CHECK(logarithmic.at(1) == 0);
  CHECK(logarithmic.at(10) == doctest::Approx(0.5));
  CHECK(linear.holds(-1));
  CHECK_FALSE(linear.holds(none));
  CHECK_FALSE(linear.holds(HUGE_VAL));
  CHECK_FALSE(logarithmic.holds(0));
  CHECK_FALSE(logarithmic.holds(-1));
  const AxisRange widest{1e-299, 1e299, Scale::logarithmic};  // whose ratio is no number any more
  CHECK(widest.at(1e-299) == 0);
  CHECK(widest.at(1) == doctest::Approx(0.5));
  CHECK(widest.at(1e299) == 1);
}

TEST_CASE("the range spans what has a place, and is never a point") {
  AxisRange range = range_of({3, none, -1, HUGE_VAL, 2}, Scale::linear);
  CHECK(range.low == -1);
  CHECK(range.high == 3);
  range = range_of({0.5, 0, -7, 8, none}, Scale::logarithmic);
  CHECK(range.low == 0.5);
  CHECK(range.high == 8);
  for (const Scale scale : {Scale::linear, Scale::logarithmic}) {
    CHECK(range_of({}, scale).low < range_of({}, scale).high);
    CHECK(range_of({none}, scale).low < range_of({none}, scale).high);
    for (const double value : {1e-200, 1e-5, 2.5, 1e7, 1e200}) {
      const AxisRange one = range_of({value, value * (1 + 1e-12)}, scale);
      CHECK(one.at(value) == doctest::Approx(0.5));
    }
  }
  CHECK(range_of({0}, Scale::linear).at(0) == 0.5);
  CHECK(range_of({-4}, Scale::linear).at(-4) == doctest::Approx(0.5));
}

TEST_CASE("ticks are round, rise, lie in the range, and are at most as many as asked") {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> part(0, 1);
  for (int trial = 0; trial < 20000; ++trial) {
    const Scale scale = trial % 2 ? Scale::linear : Scale::logarithmic;
    double low = std::pow(10, 12 * part(random) - 6), high = low * (1 + std::pow(10, 8 * part(random) - 3));
    if (scale == Scale::linear && trial % 4 == 1) low = -low;
    const int most = 1 + trial / 4 % 9;
    CAPTURE(low);
    CAPTURE(high);
    CAPTURE(most);
    const std::vector<double> ticks = ticks_of({low, high, scale}, most);
    REQUIRE(ticks.size() <= static_cast<std::size_t>(most));
    // Where three have room, two are there: one alone gives no scale.
    if (most >= 3) REQUIRE(ticks.size() >= 2);
    const double tolerance = 1e-8 * (high - low), step = ticks.size() > 1 ? ticks[1] - ticks[0] : 0;
    for (std::size_t i = 0; i < ticks.size(); ++i) {
      REQUIRE(ticks[i] >= low - tolerance);
      REQUIRE(ticks[i] <= high + tolerance);
      if (i) REQUIRE(ticks[i] > ticks[i - 1]);
      if (scale == Scale::linear && i) REQUIRE(ticks[i] - ticks[i - 1] == doctest::Approx(step).epsilon(1e-6));
      if (scale == Scale::linear && i) REQUIRE(is_round(step));
      if (scale == Scale::logarithmic && high > 10 * low) REQUIRE(is_round(ticks[i]));
    }
    const std::vector<std::string> labels = tick_labels(ticks);
    REQUIRE(std::set<std::string>(labels.begin(), labels.end()).size() == ticks.size());
  }
}

TEST_CASE("ticks of ranges that are met daily") {
  CHECK(tick_labels(ticks_of({0, 10000}, 6)) == std::vector<std::string>{"0", "2 k", "4 k", "6 k", "8 k", "10 k"});
  CHECK(tick_labels(ticks_of({-1, 1}, 5)) == std::vector<std::string>{"−1", "−0.5", "0", "0.5", "1"});
  CHECK(tick_labels(ticks_of({1e3, 1e9, Scale::logarithmic}, 4)) == std::vector<std::string>{"1 k", "1 M", "1 G"});
  CHECK(tick_labels(ticks_of({1.25, 5.5, Scale::logarithmic}, 6)) == std::vector<std::string>{"1.5", "2", "3", "5"});
  CHECK(ticks_of({1e-300, 1e299, Scale::logarithmic}, 4).size() >= 2);
}

TEST_CASE("ticks of what is counted are whole numbers") {
  CHECK(ticks_of({0, 10}, 6) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(ticks_of({0, 10}, 5) == std::vector<double>{0, 2.5, 5, 7.5, 10});
  CHECK(ticks_of({0, 10}, 5, true) == std::vector<double>{0, 5, 10});
  CHECK(ticks_of({1, 3}, 6, true) == std::vector<double>{1, 2, 3});
  CHECK(ticks_of({0, 100}, 5, true) == std::vector<double>{0, 25, 50, 75, 100});
  for (const double only : {0.0, 1.0, 7.0, 12345.0}) {  // of one layer there is no layer beside it
    CHECK(ticks_of(range_of({only}, Scale::linear, true), 3, true) == std::vector<double>{only});
  }
  CHECK(ticks_of({1, 8, Scale::logarithmic}, 6) == std::vector<double>{1, 1.5, 2, 3, 5, 7});
  CHECK(ticks_of({1, 8, Scale::logarithmic}, 6, true) == std::vector<double>{1, 2, 3, 5, 7});
  CHECK(ticks_of({1, 3, Scale::logarithmic}, 6, true) == std::vector<double>{1, 2, 3});
  for (int last = 1; last < 300; ++last) {
    for (int most = 1; most < 9; ++most) {
      for (const double tick : ticks_of({0, static_cast<double>(last)}, most, true)) {
        REQUIRE(tick == std::floor(tick));
      }
      for (const double tick : ticks_of({1, 1.0 + last, Scale::logarithmic}, most, true)) {
        REQUIRE(tick == std::floor(tick));
      }
    }
  }
}

TEST_CASE("short numbers") {
  CHECK(short_number(0) == "0");
  CHECK(short_number(-0.25) == "−0.25");
  CHECK(short_number(0.001) == "0.001");
  CHECK(short_number(2e-5) == "2e-5");
  CHECK(short_number(-1.25e-7) == "−1.25e-7");
  CHECK(short_number(999.94) == "999.9");
  CHECK(short_number(999.96) == "1 k");
  CHECK(short_number(20000) == "20 k");
  CHECK(short_number(999999) == "1 M");
  CHECK(short_number(1.5e6) == "1.5 M");
  CHECK(short_number(3e17) == "300 P");
  CHECK(short_number(1e21) == "1e21");
  CHECK(short_number(none) == "–");
  CHECK(short_number(HUGE_VAL) == "–");
}

TEST_CASE("labels take as many digits as tell ticks apart") {
  CHECK(tick_labels({1, 2}) == std::vector<std::string>{"1", "2"});
  CHECK(tick_labels({1.0001, 1.0002}) == std::vector<std::string>{"1.0001", "1.0002"});
  CHECK(tick_labels({1, 1.005}) == std::vector<std::string>{"1", "1.005"});  // and not 1.01, which is elsewhere
  CHECK(tick_labels({1.0025}) == std::vector<std::string>{"1.0025"});
  CHECK(tick_labels({0}) == std::vector<std::string>{"0"});
  CHECK(tick_labels({}).empty());
}

TEST_SUITE_END();
