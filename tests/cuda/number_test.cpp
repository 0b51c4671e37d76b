// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/number.cuh>

#include "cuda/kernels.hpp"

using namespace simplx;
using namespace simplx::gpu;

TEST_SUITE_BEGIN("cuda/number");

TEST_CASE("a number computes as its type does") {
  const Number<double> x = 0.75, y = -2.5;
  const auto is = [](Number<double> found, double exact) { CHECK(found.value == exact); };
  is(x + y, -1.75), is(x - y, 3.25), is(x * y, -1.875), is(y / x, -2.5 / 0.75), is(-x, -0.75);
  is(Number<double>{}, 0), is(4 * x, 3), is(x - 1.0f, -0.25);
  is(select(x > y, x, y), 0.75), is(max(x, y), 0.75), is(min(x, y), -2.5), is(abs(y), 2.5);
  is(exp(x), std::exp(0.75)), is(log(x), std::log(0.75)), is(log1p(x), std::log1p(0.75)), is(erf(x), std::erf(0.75));
  is(sin(x), std::sin(0.75)), is(cos(x), std::cos(0.75)), is(tanh(x), std::tanh(0.75)), is(sqrt(x), std::sqrt(0.75));
  is(pow(x, y), std::pow(0.75, -2.5)), is(sigmoid(y), 1 / (1 + std::exp(2.5)));
  Number<double> sum = x;
  sum += y;
  is(sum, -1.75);
  is(sum -= y, 0.75), is(sum *= y, -1.875), is(sum /= y, 0.75);
  is(rsqrt(x), 1 / std::sqrt(0.75)), is(select(y < x, y, x), -2.5), is(select(x <= x, y, x), -2.5);
  is(select(x >= x, y, x), -2.5), is(select(x < x, y, x), 0.75), is(select(x <= y, y, x), 0.75);
  is(select(y >= x, y, x), 0.75);
}

TEST_CASE("several numbers compute each by itself") {
  Numbers<double, 3> x, y;
  for (int k = 0; k < 3; ++k) x.of[k] = Number<double>(0.5 + k), y.of[k] = Number<double>(1.5 - 2 * k);
  const auto each = [&](const auto& rule) {
    const Numbers<double, 3> found = rule(x, y);
    for (int k = 0; k < 3; ++k) CHECK(found.of[k].value == rule(x.of[k], y.of[k]).value);
  };
  each([](auto a, auto b) { return a + b; }), each([](auto a, auto b) { return a - b; });
  each([](auto a, auto b) { return a * b; }), each([](auto a, auto b) { return a / b; });
  each([](auto a, auto) { return -a; }), each([](auto a, auto) { return 4 * a - 1.0f; });
  each([](auto a, auto b) { return a += b; }), each([](auto a, auto b) { return select(a > b, a, b + b); });
  each([](auto a, auto b) { return max(a, b); }), each([](auto a, auto b) { return min(a, b); });
  each([](auto a, auto) { return exp(a); }), each([](auto a, auto) { return log(a); });
  each([](auto a, auto) { return log1p(a); }), each([](auto a, auto) { return sqrt(a); });
  each([](auto, auto b) { return sin(b); }), each([](auto, auto b) { return cos(b); });
  each([](auto, auto b) { return tanh(b); }), each([](auto, auto b) { return sigmoid(b); });
  each([](auto, auto b) { return erf(b); }), each([](auto, auto b) { return abs(b); });
  each([](auto a, auto b) { return pow(a, b); }), each([](auto a, auto) { return rsqrt(a); });
  each([](auto a, auto b) { return a -= b; }), each([](auto a, auto b) { return a *= b; });
  each([](auto a, auto b) { return a /= b; }), each([](auto a, auto b) { return select(a < b, a, b + b); });
  each([](auto a, auto b) { return select(a <= b, a, b + b); });
  each([](auto a, auto b) { return select(a >= b, a, b + b); });
  CHECK(x.sum() == 4.5);
  CHECK(Numbers<double, 3>(0.25).sum() == 0.75);
}

TEST_CASE("maxima and minima with NaN are NaN, as those of the ops are") {
  const Number<float> nan = std::numeric_limits<float>::quiet_NaN(), one = 1;
  CHECK(std::isnan(max(nan, one).value));
  CHECK(std::isnan(max(one, nan).value));
  CHECK(std::isnan(min(nan, one).value));
  CHECK(std::isnan(min(one, nan).value));
}

TEST_CASE("a power of NaN, or to the power of NaN, is NaN, as on the CPU") {
  const Number<double> nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isnan(pow(nan, Number<double>(0)).value));
  CHECK(std::isnan(pow(Number<double>(1), nan).value));
  CHECK(pow(Number<double>(0), Number<double>(0)).value == 1);
}

TEST_CASE("one number, in memory or a literal") {
  const float place = 3;
  CHECK(*One<float>(&place) == 3);
  CHECK(*One<float>(0.5) == 0.5f);
  CHECK(*One<float>() == 0);
}

TEST_SUITE_END();
