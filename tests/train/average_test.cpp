// SPDX-License-Identifier: MIT
#include <simplx/train/average.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace simplx;

namespace {
constexpr int n = 21;  // no multiple of a vector
std::vector<double> weights(int step) {
  std::vector<double> values(n);
  for (int i = 0; i < n; ++i) values[static_cast<std::size_t>(i)] = std::cos(i + 3 * step);
  return values;
}
/// As a GPU's: what is asked for is a copy, taken up when the network is used.
struct Net {
  std::vector<double> device, host = {};
  bool touched = false;

  std::span<double> parameters() {
    use();
    host = device, touched = true;
    return host;
  }
  const std::vector<double>& use() {
    if (touched) device = host;
    touched = false;
    return device;
  }
};
}  // namespace

TEST_SUITE_BEGIN("train/average");

TEST_CASE("the plain mean is the mean of all that was taken in") {
  WeightAverage<double> average(n);
  std::vector<double> sum(n);
  for (int step = 1; step <= 9; ++step) {
    average.update(weights(step));
    CHECK(average.updates() == step);
    for (int i = 0; i < n; ++i) {
      sum[i] += weights(step)[i];
      REQUIRE(average.values()[i] == doctest::Approx(sum[i] / step).epsilon(1e-13));
    }
  }
}

TEST_CASE("the exponential average begins with the first weights and forgets by its decay") {
  WeightAverage<double> average(n, 0.75);
  std::vector<double> expected = weights(1);
  average.update(weights(1));
  for (int i = 0; i < n; ++i) REQUIRE(average.values()[i] == expected[i]);
  for (int step = 2; step <= 9; ++step) {
    average.update(weights(step));
    for (int i = 0; i < n; ++i) {
      expected[i] = 0.75 * expected[i] + 0.25 * weights(step)[i];
      REQUIRE(average.values()[i] == doctest::Approx(expected[i]).epsilon(1e-13));
    }
  }
}

TEST_CASE("in the place of the weights until the guard ends, after an exception too") {
  WeightAverage<double> average(n, 0.5);
  average.update(weights(1));
  average.update(weights(2));
  const std::vector<double> mean(average.values().begin(), average.values().end());
  Net training{weights(3)};
  for (int i = 0; i < 2; ++i) {
    const auto in_place = average.swap_into(training);
    CHECK(training.use() == mean);
    CHECK_THROWS_WITH_AS(average.update(training.use()), doctest::Contains("in the place of the weights"), Error);
    CHECK_THROWS_AS((void)average.swap_into(training), Error);
    CHECK(training.use() == mean);
  }
  CHECK(training.use() == weights(3));
  CHECK(std::equal(mean.begin(), mean.end(), average.values().begin()));
  try {
    const auto in_place = average.swap_into(training);
    throw 1;
  } catch (int) {
  }
  CHECK(training.use() == weights(3));
  average.update(training.use());  // and the average goes on
  CHECK(average.values()[5] == doctest::Approx((mean[5] + weights(3)[5]) / 2).epsilon(1e-14));
}

TEST_CASE("what makes no sense is refused") {
  CHECK_THROWS_WITH_AS(WeightAverage<float>(4, 1.0), doctest::Contains("the decay of an average is 1"), Error);
  CHECK_THROWS_AS(WeightAverage<float>(4, -0.5), Error);
  CHECK_THROWS_AS(WeightAverage<float>(4, std::nan("")), Error);
  WeightAverage<double> average(4);
  std::vector<double> five(average.values().size() + 1);  // a constant, and g++ -O2 warned of what is refused
  Net four{std::vector<double>(4)};
  CHECK_THROWS_WITH_AS(average.update(five), doctest::Contains("of 4 parameters was given 5"), Error);
  CHECK_THROWS_WITH_AS((void)average.swap_into(four), doctest::Contains("call update after a step first"), Error);
}

TEST_CASE("an average that was written down goes on") {
  WeightAverage<double> whole(n), first(n), second(n);
  for (int step = 1; step <= 9; ++step) {
    whole.update(weights(step));
    if (step <= 4) first.update(weights(step));
  }
  second.restore(first.values(), first.updates());
  for (int step = 5; step <= 9; ++step) second.update(weights(step));
  CHECK(second.updates() == 9);
  for (int i = 0; i < n; ++i) REQUIRE(second.values()[i] == whole.values()[i]);
  CHECK_THROWS_WITH_AS(second.restore(std::vector<double>(n - 1), 1), doctest::Contains("20"), Error);
  CHECK_THROWS_WITH_AS(second.restore(first.values(), -1), doctest::Contains("-1 updates"), Error);
}

TEST_SUITE_END();
