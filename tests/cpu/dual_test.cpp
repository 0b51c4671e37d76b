// SPDX-License-Identifier: MIT
#include <simplx/cpu/dual.hpp>

#include <doctest/doctest.h>

#include <cmath>

using namespace simplx;

namespace {
/// f'(x) and f''(x) of a generic function.
template <class F>
struct Derivatives {
  double value, first, second;
};
template <class F>
Derivatives<F> derivatives(F f, double x) {
  using Inner = Dual<double>;
  const Dual<Inner> y = f(Dual<Inner>(Inner(x, 1), Inner(1, 0)));
  return {y.value.value, y.value.tangent, y.tangent.tangent};
}
}  // namespace

TEST_SUITE_BEGIN("cpu/dual");

TEST_CASE("first and second derivatives of every function") {
  const double x = 0.7;
  const auto check = [&](auto f, double first, double second) {
    const auto d = derivatives(f, x);
    CHECK(d.first == doctest::Approx(first).epsilon(1e-13));
    CHECK(d.second == doctest::Approx(second).epsilon(1e-13));
  };
  const double e = std::exp(x), t = std::tanh(x), s = 1 / (1 + std::exp(-x));
  check([](auto v) { return exp(v); }, e, e);
  check([](auto v) { return log(v); }, 1 / x, -1 / (x * x));
  check([](auto v) { return log1p(v); }, 1 / (1 + x), -1 / ((1 + x) * (1 + x)));
  check([](auto v) { return sin(v); }, std::cos(x), -std::sin(x));
  check([](auto v) { return cos(v); }, -std::sin(x), -std::cos(x));
  check([](auto v) { return tanh(v); }, 1 - t * t, -2 * t * (1 - t * t));
  check([](auto v) { return sigmoid(v); }, s * (1 - s), s * (1 - s) * (1 - 2 * s));
  const double slope = 2 / std::sqrt(3.14159265358979323846) * std::exp(-x * x);
  check([](auto v) { return erf(v); }, slope, -2 * x * slope);
  check([](auto v) { return sqrt(v); }, 0.5 / std::sqrt(x), -0.25 / (x * std::sqrt(x)));
  check([](auto v) { return pow(v, decltype(v)(2.5)); }, 2.5 * std::pow(x, 1.5), 3.75 * std::pow(x, 0.5));
  check([](auto v) { return pow(decltype(v)(2.0), v); }, std::pow(2, x) * std::log(2),
        std::pow(2, x) * std::log(2) * std::log(2));
  check([](auto v) { return v * v / (v + 1.0) - 3.0 * v; }, 1 - 1 / ((1 + x) * (1 + x)) - 3, 2 / std::pow(1 + x, 3));
  check([](auto v) { return abs(-v * v); }, 2 * x, 2);
  check([](auto v) { return max(v, v * v) + min(v, v * v); }, 1 + 2 * x, 2);
}

TEST_CASE("comparisons look at values alone") {
  CHECK(Dual<double>(1, 5) == Dual<double>(1, 7));
  CHECK(Dual<double>(1, 5) < Dual<double>(2, -5));
  CHECK(!(Dual<double>(std::nan(""), 1) < 2.0));
}

TEST_CASE("the root of a zero that stays one has no tangent; of one that moves, no finite one") {
  CHECK(sqrt(Dual<double>(0, 0)).tangent == 0);
  CHECK(std::isinf(sqrt(Dual<double>(0, 1)).tangent));
}

TEST_CASE("powers at zero have the slopes that they have in reverse") {
  CHECK(pow(Dual<double>(0, 0), Dual<double>(0.5, 0)).tangent == 0);
  CHECK(pow(Dual<double>(0, 1), Dual<double>(2, 1)).tangent == 0);
  CHECK(pow(Dual<double>(-3, 0), Dual<double>(2, 1)).tangent == 0);
  CHECK(pow(Dual<double>(3, 1), Dual<double>(2, 1)).tangent == doctest::Approx(6 + 9 * std::log(3.0)));
}

TEST_SUITE_END();
