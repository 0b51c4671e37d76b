// SPDX-License-Identifier: MIT
#include <simplx/cpu/attention_reference.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace simplx;

TEST_CASE("cpu/attention_reference: two tokens, one head of width one, by hand") {
  const double q[] = {0, 1}, k[] = {1, 2}, v[] = {10, 20};
  const double alpha = 2, beta = 3, gamma = 4;
  const Index offsets[] = {0, 2};
  double out[2], log_sum_exp[2];
  std::vector<double> scratch(static_cast<std::size_t>(attention_reference_scratch(2)));
  const double second = 1 / (1 + std::exp(1.0));  // softmax of the scores 1 and 2: the weight of the first token
  const double mixed = 10 * second + 20 * (1 - second);

  attention_reference_forward({1, 1, 1, Mixing::softmax}, {offsets, 1}, q, k, v, &alpha, &beta, &gamma, out, log_sum_exp, scratch.data());
  CHECK(out[0] == doctest::Approx(10));
  CHECK(out[1] == doctest::Approx(mixed));
  CHECK(log_sum_exp[1] == doctest::Approx(std::log(std::exp(1.0) + std::exp(2.0))));

  attention_reference_forward({1, 1, 1, Mixing::shaped}, {offsets, 1}, q, k, v, &alpha, &beta, &gamma, out, log_sum_exp, scratch.data());
  CHECK(out[0] == doctest::Approx((2 + 3 - 4) * 10));              // the first token sees itself alone
  CHECK(out[1] == doctest::Approx(2 * 20 + 3 * mixed - 4 * 15));   // alpha v + beta A v - gamma mean
}
