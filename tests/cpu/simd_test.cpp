// SPDX-License-Identifier: MIT
#include <simplx/cpu/simd.hpp>

#include <doctest/doctest.h>

#include <cmath>

using namespace simplx;
using namespace simplx::cpu;

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

TEST_CASE_TEMPLATE("vectors are written past the caches to where they belong", S, float, double) {
  constexpr int L = lanes<S>;
  alignas(vector_bytes) S data[3 * L]{};
  Vec<S> v{};
  for (int i = 0; i < L; ++i) v[i] = static_cast<S>(i + 1);
  stream(data + L, v);
  end_stream();
  for (int i = 0; i < 3 * L; ++i) CHECK(data[i] == (i / L == 1 ? static_cast<S>(i - L + 1) : S(0)));
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

TEST_CASE_TEMPLATE("max and min give their second argument where either is NaN", S, float, double) {
  const S nan = static_cast<S>(std::nan(""));
  const Vec<S> n = splat<Vec<S>>(nan), one = splat<Vec<S>>(1);
  CHECK(max(n, one)[0] == 1);
  CHECK(min(n, one)[0] == 1);
  CHECK(std::isnan(static_cast<S>(max(one, n)[0])));
  CHECK(std::isnan(static_cast<S>(min(one, n)[0])));
  CHECK(max(nan, S(1)) == 1);
  CHECK(std::isnan(min(S(1), nan)));
}

TEST_CASE_TEMPLATE("the maximum with zero keeps what is positive", S, float, double) {
  Vec<S> x{};
  for (int l = 0; l < lanes<S>; ++l) x[l] = static_cast<S>(l % 2 ? l : -l);
  const Vec<S> y = max(x, Vec<S>{});
  for (int l = 0; l < lanes<S>; ++l) CHECK(y[l] == (l % 2 ? static_cast<S>(l) : 0));
}

TEST_CASE("splat keeps the sign of zero") { CHECK(std::signbit(splat<Vec<float>>(-0.0f)[0])); }

TEST_SUITE_END();
