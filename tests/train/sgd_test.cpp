// SPDX-License-Identifier: MIT
#include <simplx/train/sgd.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace simplx;

namespace {

struct State {
  std::vector<double> p, g, m, v;
  explicit State(int n) : p(n), g(n), m(n), v(n, std::numeric_limits<double>::quiet_NaN()) {}
  void update(const Sgd& sgd, double scale, Index begin, Index end) {
    update_range(sgd.at<double>(1), scale, UpdateBuffers<double>{p.data(), g.data(), m.data(), v.data()}, begin, end);
  }
};

}  // namespace

TEST_SUITE_BEGIN("train/sgd");

TEST_CASE("two steps by hand, as PyTorch takes them") {
  // lr 0.1, momentum 0.5, decay 0.2; p = 1, g = 2 clipped by 0.5 to 1.
  // Step 1: d = 1 + 0.2 = 1.2, m = 1.2, p = 1 - 0.12 = 0.88; Nesterov: p = 1 - 0.1 (1.2 + 0.6) = 0.82.
  // Step 2, g = -1: d = -1 + 0.176 = -0.824, m = 0.6 - 0.824 = -0.224, p = 0.88 + 0.0224 = 0.9024;
  //   Nesterov: d = -1 + 0.164 = -0.836, m = -0.236, p = 0.82 - 0.1 (-0.836 - 0.118) = 0.9154.
  for (const bool nesterov : {false, true}) {
    const Sgd sgd{.learning_rate = 0.1, .momentum = 0.5, .nesterov = nesterov, .weight_decay = 0.2};
    State s(1);
    s.p[0] = 1, s.g[0] = 2;
    s.update(sgd, 0.5, 0, 1);
    CHECK(s.p[0] == doctest::Approx(nesterov ? 0.82 : 0.88).epsilon(1e-14));
    CHECK(s.g[0] == 0);  // ready for the next step
    s.g[0] = -1;
    s.update(sgd, 1, 0, 1);
    CHECK(s.p[0] == doctest::Approx(nesterov ? 0.9154 : 0.9024).epsilon(1e-14));
    CHECK(std::isnan(s.v[0]));  // the second moment is not touched
  }
}

TEST_CASE("without momentum a step is the gradient times the rate, whatever came before") {
  const Sgd sgd{.learning_rate = 0.25};
  State s(20);
  for (int step = 0; step < 3; ++step) {
    for (int i = 0; i < 20; ++i) s.p[i] = 1, s.g[i] = i - 7;
    s.update(sgd, 1, 0, 20);
    for (int i = 0; i < 20; ++i) REQUIRE(s.p[i] == 1 - 0.25 * (i - 7));
  }
}

TEST_CASE("a schedule acts at once: the rate is outside of the momentum") {
  State s(1);
  s.g[0] = 1;
  s.update({.learning_rate = 1, .momentum = 1}, 1, 0, 1);
  s.update({.learning_rate = 10, .momentum = 1}, 1, 0, 1);
  CHECK(s.p[0] == -11);
}

TEST_CASE("an element's result does not depend on how the range is split") {
  const int n = 67;
  State whole(n), parts(n);
  const Sgd sgd{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01};
  for (int i = 0; i < n; ++i) {
    whole.p[i] = parts.p[i] = i * 0.1, whole.g[i] = parts.g[i] = std::cos(i), whole.m[i] = parts.m[i] = std::sin(i);
  }
  whole.update(sgd, 0.7, 0, n);
  parts.update(sgd, 0.7, 0, 13);
  parts.update(sgd, 0.7, 13, 14);
  parts.update(sgd, 0.7, 14, n);
  CHECK(whole.p == parts.p);
  CHECK(whole.m == parts.m);
}

TEST_CASE("settings replace what they name") {
  const Sgd sgd{.learning_rate = 2, .momentum = 0.9, .nesterov = true, .weight_decay = 0.1};
  const Sgd other = sgd.with({.learning_rate_factor = 0.5, .decays = false, .momentum = 0.4});
  CHECK(sgd.with({}).momentum == 0.9);
  CHECK(sgd.with({}).weight_decay == 0.1);
  CHECK(other.learning_rate == 1);
  CHECK(other.momentum == 0.4);
  CHECK(other.nesterov);
  CHECK(other.weight_decay == 0);
}

TEST_SUITE_END();
