// SPDX-License-Identifier: MIT
#include <simplx/cpu/simd.hpp>

#include <doctest/doctest.h>

using namespace simplx;

TEST_SUITE_BEGIN("cpu/simd");

TEST_CASE_TEMPLATE("vectors load, store and reduce lane by lane", S, float, double) {
  constexpr int L = lanes<S>;
  static_assert(std::is_same_v<Lane<Vec<S>>, S> && std::is_same_v<Lane<S>, S>);
  S data[3 * L + 1];
  for (int i = 0; i < 3 * L + 1; ++i) data[i] = static_cast<S>(i * i) - S(7);
  const Vec<S> v = load<Vec<S>>(data + 1);  // unaligned
  S expected = 0, highest = v[0];
  for (int i = 0; i < L; ++i) {
    CHECK(v[i] == data[i + 1]);
    expected += data[i + 1];
    highest = highest > data[i + 1] ? highest : data[i + 1];
  }
  CHECK(sum(v) == expected);
  CHECK(largest(v) == highest);
  store(data + L + 1, v);
  CHECK(data[L + 1] == data[1]);
  CHECK(data[2 * L] == data[L]);
  CHECK(sum(data[3]) == data[3]);
  CHECK(largest(data[3]) == data[3]);
}

TEST_CASE_TEMPLATE("max, min and select work on lanes and on numbers", S, float, double) {
  Vec<S> a = splat<Vec<S>>(2), b = splat<Vec<S>>(3);
  a[0] = 5;
  CHECK(max(a, b)[0] == 5);
  CHECK(max(a, b)[1] == 3);
  CHECK(min(a, b)[0] == 3);
  CHECK(select(a > b, a, b)[1] == 3);
  CHECK(max(S(1), S(4)) == 4);
  CHECK(select(false, S(1), S(4)) == 4);
}

TEST_CASE("splat keeps the sign of zero") { CHECK(std::signbit(splat<Vec<float>>(-0.0f)[0])); }

TEST_SUITE_END();
