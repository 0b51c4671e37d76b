// SPDX-License-Identifier: MIT
#include <simplx/cpu/attention_reference.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

namespace numbers {

/// value + slope * epsilon, epsilon^2 = 0: all that the reference may ask of a scalar, and no more.
struct Tangent {
  double value = 0, slope = 0;
  Tangent() = default;
  explicit Tangent(double v, double s = 0) : value(v), slope(s) {}
};
Tangent operator+(Tangent a, Tangent b) { return Tangent(a.value + b.value, a.slope + b.slope); }
Tangent operator-(Tangent a, Tangent b) { return Tangent(a.value - b.value, a.slope - b.slope); }
Tangent operator-(Tangent a) { return Tangent(-a.value, -a.slope); }
Tangent operator*(Tangent a, Tangent b) { return Tangent(a.value * b.value, a.slope * b.value + a.value * b.slope); }
Tangent operator/(Tangent a, Tangent b) {
  return Tangent(a.value / b.value, (a.slope - a.value / b.value * b.slope) / b.value);
}
Tangent& operator+=(Tangent& a, Tangent b) { return a = a + b; }
Tangent& operator-=(Tangent& a, Tangent b) { return a = a - b; }
Tangent& operator*=(Tangent& a, Tangent b) { return a = a * b; }
Tangent& operator/=(Tangent& a, Tangent b) { return a = a / b; }
bool operator<(Tangent a, Tangent b) { return a.value < b.value; }
bool operator>(Tangent a, Tangent b) { return a.value > b.value; }
bool operator==(Tangent a, Tangent b) { return a.value == b.value; }
Tangent exp(Tangent a) { return Tangent(std::exp(a.value), std::exp(a.value) * a.slope); }
Tangent log(Tangent a) { return Tangent(std::log(a.value), a.slope / a.value); }
Tangent sqrt(Tangent a) { return Tangent(std::sqrt(a.value), a.slope / (2 * std::sqrt(a.value))); }

}  // namespace numbers

template <>
struct Eigen::NumTraits<numbers::Tangent> : Eigen::GenericNumTraits<double> {
  using Real = numbers::Tangent;
  using NonInteger = numbers::Tangent;
  using Nested = numbers::Tangent;
  using Literal = double;
  enum { RequireInitialization = 1 };
};

using namespace simplx;
using namespace simplx::cpu;

TEST_CASE("cpu/attention_reference: two tokens, one head of width one, by hand") {
  const double q[] = {0, 1}, k[] = {1, 2}, v[] = {10, 20};
  const double alpha = 2, beta = 3, gamma = 4, slope = 0.5;
  const AttentionOperands<double> in{q, k, v, &alpha, &beta, &gamma, &slope};
  const Index offsets[] = {0, 2};
  double out[2], log_sum_exp[2];
  std::vector<double> scratch(static_cast<std::size_t>(attention_reference_scratch(2)));
  const auto run = [&](AttentionMatrix matrix, Mask mask, bool alibi) {
    attention_reference_forward({1, 1, 1, matrix, mask, alibi}, {offsets, 1}, in, out, log_sum_exp, scratch.data());
  };
  const double first = 1 / (1 + std::exp(1.0));  // softmax of the scores 1 and 2: the weight of the first token
  const double mixed = 10 * first + 20 * (1 - first);

  run(AttentionMatrix::softmax, Mask::causal, false);
  CHECK(out[0] == doctest::Approx(10));
  CHECK(out[1] == doctest::Approx(mixed));
  CHECK(log_sum_exp[1] == doctest::Approx(std::log(std::exp(1.0) + std::exp(2.0))));

  run(AttentionMatrix::skip_init, Mask::causal, false);
  CHECK(out[0] == doctest::Approx((2 + 3) * 10));
  CHECK(out[1] == doctest::Approx(2 * 20 + 3 * mixed));

  run(AttentionMatrix::shaped, Mask::causal, false);
  CHECK(out[0] == doctest::Approx((2 + 3 - 4) * 10));             // the first token sees itself alone
  CHECK(out[1] == doctest::Approx(2 * 20 + 3 * mixed - 4 * 15));  // alpha v + beta A v - gamma mean

  run(AttentionMatrix::shaped, Mask::full, false);
  CHECK(out[0] == doctest::Approx(2 * 10 + 3 * 15 - 4 * 15));  // its query is zero: all scores are
  CHECK(out[1] == doctest::Approx(2 * 20 + 3 * mixed - 4 * 15));

  run(AttentionMatrix::shaped, Mask::full, true);
  const double far = 1 / (1 + std::exp(0.5)), near = 1 - far;     // weights of C
  const double biased = 1 / (1 + std::exp(1.5));                  // scores 1 - 0.5 and 2
  CHECK(out[0] == doctest::Approx(2 * 10 + (3 - 4) * (near * 10 + far * 20)));
  CHECK(out[1] == doctest::Approx(2 * 20 + 3 * (biased * 10 + (1 - biased) * 20) - 4 * (far * 10 + near * 20)));
  CHECK(log_sum_exp[1] == doctest::Approx(std::log(std::exp(0.5) + std::exp(2.0))));
}

TEST_CASE("cpu/attention_reference: any scalar: dual numbers give derivatives, those of gradients too") {
  constexpr Index rows = 9;
  const Index offsets[] = {0, 2, 9};
  for (AttentionMatrix matrix : {AttentionMatrix::softmax, AttentionMatrix::skip_init, AttentionMatrix::shaped})
    for (Mask mask : {Mask::causal, Mask::full})
      for (bool alibi : {false, true}) {
        const AttentionSize size{2, 3, 2, matrix, mask, alibi};
        const bool gains = matrix != AttentionMatrix::softmax, centred = matrix == AttentionMatrix::shaped;
        // All inputs in one array, so that a direction is one array too.
        constexpr Index q = 0, k = q + rows * 6, v = k + rows * 6, g = v + rows * 4, s = g + 6, count = s + 2;
        const auto of = [&](auto* x) {
          using S = std::remove_const_t<std::remove_pointer_t<decltype(x)>>;
          return AttentionOperands<S>{x + q, x + k, x + v, gains ? x + g : nullptr, gains ? x + g + 2 : nullptr,
                                      centred ? x + g + 4 : nullptr, alibi ? x + s : nullptr};
        };
        std::mt19937 generator(3);
        std::normal_distribution<double> normal;
        std::vector<double> at(count), direction(count), dout(rows * 4);
        for (auto* values : {&at, &direction, &dout}) {
          for (double& x : *values) x = normal(generator);
        }
        at[s] = 0.3, at[s + 1] = 1.5;

        // Objective <dout, out> and its gradient, in any scalar.
        const auto run = [&]<class S>(const std::vector<S>& x) {
          std::vector<S> seed, out(rows * 4), sums(rows * 2), scratch(attention_reference_scratch(7)), gradient(count);
          for (const double d : dout) seed.push_back(S(d));
          attention_reference_forward(size, {offsets, 2}, of(x.data()), out.data(), sums.data(), scratch.data());
          const auto to = [&](Index place, bool present) { return present ? gradient.data() + place : nullptr; };
          attention_reference_backward(size, Write::store, Write::store, Write::store, {offsets, 2}, of(x.data()),
                                       seed.data(),
                                       AttentionGradients<S>{to(q, true), to(k, true), to(v, true), to(g, gains),
                                                             to(g + 2, gains), to(g + 4, centred)},
                                       scratch.data());
          S objective{};
          for (Index i = 0; i < rows * 4; ++i) objective += seed[i] * out[i];
          gradient.push_back(objective);
          return gradient;
        };
        std::vector<numbers::Tangent> dual;
        std::vector<double> above = at, below = at;
        constexpr double step = 1e-5;
        for (Index i = 0; i < count; ++i) {
          if (i >= s) direction[i] = 0;  // slopes have no gradient
          dual.emplace_back(at[i], direction[i]);
          above[i] += step * direction[i], below[i] -= step * direction[i];
        }
        const auto exact = run(at), upper = run(above), lower = run(below);
        const auto tangent = run(dual);
        double along = 0, worst = 0;
        for (Index i = 0; i < count; ++i) along += exact[i] * direction[i];
        CHECK(tangent.back().slope == doctest::Approx(along).epsilon(1e-12));
        for (Index i = 0; i <= count; ++i) {
          CHECK(tangent[i].value == doctest::Approx(exact[i]).epsilon(1e-12));
          worst = std::max(worst, std::abs(tangent[i].slope - (upper[i] - lower[i]) / (2 * step)));
        }
        CHECK(worst < 1e-8);
      }
}
