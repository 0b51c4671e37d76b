// SPDX-License-Identifier: MIT
#include <simplx/train/adamw.hpp>

#include <doctest/doctest.h>

#include <vector>

using namespace simplx;

namespace {

struct State {
  std::vector<double> p, g, m, v;
  explicit State(int n) : p(n), g(n), m(n), v(n) {}
  /// Not in line: a compiler that knows all numbers would be asked something else.
  __attribute__((noinline)) void update(const AdamW& a, long step, bool decays, double scale, Index begin, Index end) {
    const UpdateBuffers<double> buffers{p.data(), g.data(), m.data(), v.data()};
    update_range(a.with({.decays = decays}).at<double>(step), scale, buffers, begin, end);
  }
};

}  // namespace

TEST_SUITE_BEGIN("train/adamw");

TEST_CASE("two steps by hand") {
  // lr 0.1, b1 0.5, b2 0.75, eps 0, decay 0.2; p = 1, g = 2 clipped by 0.5 to 1.
  // Step 1: p = 1 * 0.98; m = 0.5, v = 0.25; m^ = 1, v^ = 1; p = 0.98 - 0.1 = 0.88.
  // Step 2, g = -1: p = 0.88 * 0.98 = 0.8624; m = -0.25, v = 0.4375; m^ = -1/3, v^ = 1;
  //   p = 0.8624 + 0.1 / 3.
  const AdamW a{.learning_rate = 0.1, .beta1 = 0.5, .beta2 = 0.75, .epsilon = 0, .weight_decay = 0.2};
  State s(1);
  s.p[0] = 1, s.g[0] = 2;
  s.update(a, 1, true, 0.5, 0, 1);
  CHECK(s.p[0] == doctest::Approx(0.88).epsilon(1e-14));
  CHECK(s.g[0] == 0);  // ready for the next step
  s.g[0] = -1;
  s.update(a, 2, true, 1, 0, 1);
  CHECK(s.p[0] == doctest::Approx(0.8624 + 0.1 / 3).epsilon(1e-14));
}

TEST_CASE("epsilon is added after the bias correction, and only what decays decays") {
  const AdamW a{.learning_rate = 1, .beta1 = 0, .beta2 = 0.99, .epsilon = 3, .weight_decay = 0.5};
  State s(1);
  s.p[0] = 10, s.g[0] = 1;
  s.update(a, 1, false, 1, 0, 1);  // v^ = 1: the step is 1 / (1 + 3)
  CHECK(s.p[0] == doctest::Approx(9.75).epsilon(1e-14));
}

TEST_CASE("an element's result does not depend on how the range is split") {
  const int n = 67;
  State whole(n), parts(n);
  for (int i = 0; i < n; ++i) whole.p[i] = parts.p[i] = i * 0.1, whole.g[i] = parts.g[i] = std::cos(i);
  whole.update({}, 3, true, 0.7, 0, n);
  parts.update({}, 3, true, 0.7, 0, 13);
  parts.update({}, 3, true, 0.7, 13, 14);
  parts.update({}, 3, true, 0.7, 14, n);
  CHECK(whole.p == parts.p);
  CHECK(whole.v == parts.v);
}

TEST_CASE("ten steps are those of a plain loop in PyTorch's order of operations") {
  const AdamW a{.learning_rate = 0.03, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.2};
  const int n = 37;
  State s(n);
  std::vector<double> p(n), m(n), v(n);
  for (int i = 0; i < n; ++i) s.p[i] = p[i] = std::sin(i);
  for (long step = 1; step <= 10; ++step) {
    for (int i = 0; i < n; ++i) {
      const double g = std::cos(i * step);
      s.g[i] = 2 * g;
      p[i] *= 1 - 0.03 * 0.2;
      m[i] = 0.8 * m[i] + 0.2 * g;
      v[i] = 0.95 * v[i] + 0.05 * g * g;
      p[i] -= 0.03 * (m[i] / (1 - std::pow(0.8, step))) / (std::sqrt(v[i] / (1 - std::pow(0.95, step))) + 1e-3);
    }
    s.update(a, step, true, 0.5, 0, n);
    for (int i = 0; i < n; ++i) REQUIRE(s.p[i] == doctest::Approx(p[i]).epsilon(1e-12));
  }
}

TEST_CASE("settings replace what they name") {
  const AdamW a{.learning_rate = 2, .epsilon = 1e-5, .weight_decay = 0.1};
  const AdamW plain = a.with({}), other = a.with({.learning_rate_factor = 0.25, .weight_decay = 0.3, .epsilon = 7});
  CHECK(plain.learning_rate == 2);
  CHECK(plain.epsilon == 1e-5);
  CHECK(plain.weight_decay == 0.1);
  CHECK(a.with({.decays = false}).weight_decay == 0);
  CHECK(other.learning_rate == 0.5);
  CHECK(other.epsilon == 7);
  CHECK(other.weight_decay == 0.3);
  CHECK(other.beta2 == a.beta2);
}

TEST_SUITE_END();
