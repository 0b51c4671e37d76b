// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/softmax.cuh>

#include "cuda/on_device.hpp"

#include <simplx/ops/softmax.hpp>

using namespace simplx;

namespace {

template <Index cols>
struct Model {
  constexpr auto operator()() const {
    const Expr x = variable("x", rows_of(Axis::tokens, cols));
    return softmax(x) * log_softmax(3.0 * x) * log_sum_exp(x, Over::columns) + softmax(x) + log_softmax(x) +
           log_sum_exp(x, Over::columns);
  }
};
constexpr Model<1> one_token;
constexpr Model<7> narrow;
constexpr Model<300> odd;
constexpr Model<5000> wide;
constexpr auto of_weights = [] { return softmax(weight("w", 3, 9, normal(1))) * scalar("s"); };

template <Index cols>
std::vector<double> results(const std::vector<double>& x) {
  const auto rows = static_cast<Index>(x.size()) / cols;
  auto y = test::unwritten<double>(rows * cols), logarithm = y, log_sum = test::unwritten<double>(rows);
  gpu::softmax<double, cols>(nullptr, x.data(), y.data(), log_sum.data(), rows);
  gpu::softmax<double, cols, true>(nullptr, x.data(), logarithm.data(), nullptr, rows);
  return test::joined({y, logarithm, log_sum});
}

}  // namespace

TEST_SUITE_BEGIN("cuda/softmax");

TEST_CASE("softmax, its logarithm and log-sum-exp of rows of any width") {
  test::same_on_device<one_token>(3);
  test::same_on_device<narrow>(9);
  test::same_on_device<odd>(3);
  test::same_on_device<wide>(2);
  test::same_on_device<of_weights>(0);
  test::float_on_device<narrow>(9);
}

TEST_CASE("nothing overflows, and what is minus infinity has no share") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto y = results<3>({1000, -infinity, 1000, -infinity, -1000, -infinity});
  CHECK(std::vector<double>(y.begin(), y.begin() + 6) == std::vector<double>{0.5, 0, 0.5, 0, 1, 0});
  CHECK(y[6] == doctest::Approx(-std::log(2)));
  CHECK(y[7] == -infinity);
  CHECK(y[10] == 0);
  CHECK(y[12] == 1000 + std::log(2));
  CHECK(y[13] == -1000);
}

TEST_CASE("far from 0 nothing is rounded away; beside infinity nothing counts") {
  const std::vector<float> far(4, -1e8f);
  std::vector<float> y(4), log_sum(1);
  gpu::softmax<float, 4, true>(nullptr, far.data(), y.data(), log_sum.data(), 1);
  for (const float logarithm : y) CHECK(logarithm == doctest::Approx(-std::log(4)));
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(results<3>({1, infinity, 2})[6] == infinity);
  CHECK(std::isnan(results<3>({1, infinity, 2})[1]));
  CHECK(std::isnan(results<2>({std::nan(""), 1})[4]));
  for (const double beside : {infinity, -infinity, 1.0}) {
    for (const double y : results<3>({std::nan(""), beside, -infinity})) CHECK(std::isnan(y));
    for (const double y : results<3>({-infinity, beside, std::nan("")})) CHECK(std::isnan(y));
  }
}

TEST_CASE("a row of minus infinity has no softmax, but a sum") {
  const auto y = results<2>(std::vector<double>(2, -std::numeric_limits<double>::infinity()));
  for (std::size_t i = 0; i < 4; ++i) CHECK(std::isnan(y[i]));
  CHECK(y[4] == -std::numeric_limits<double>::infinity());
}

TEST_SUITE_END();
