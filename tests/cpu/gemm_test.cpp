// SPDX-License-Identifier: MIT
#include <simplx/cpu/gemm.hpp>

#include <doctest/doctest.h>

#include <vector>

using namespace simplx;

namespace {

/// Small whole numbers, so that sums are exact in float and any order of additions gives the same result.
template <class S>
std::vector<S> numbers(Index count, int seed) {
  std::vector<S> values(static_cast<std::size_t>(count) + 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<S>((static_cast<int>(i) * 7 + seed * 13) % 17 - 8);
  }
  return values;
}

/// Adds a number that names the element: 100 row + col.
struct Place {
  template <class V>
  __attribute__((always_inline)) V operator()(V sums, Index row, Index col) const {
    if constexpr (std::is_arithmetic_v<V>) {
      return sums + static_cast<V>(100 * row + col);
    } else {
      for (int l = 0; l < lanes<Lane<V>>; ++l) sums[l] += static_cast<Lane<V>>(100 * row + col + l);
      return sums;
    }
  }
};

/// The triple loop, in double: a (rows, inner) with the strides given, times b (inner, cols), dense.
template <class S>
std::vector<double> product(Index rows, Index inner, Index cols, const S* a, Index a_row, Index a_col, const S* b) {
  std::vector<double> c(static_cast<std::size_t>(rows * cols));
  for (Index i = 0; i < rows; ++i) {
    for (Index k = 0; k < inner; ++k) {
      const double left = a[i * a_row + k * a_col];
      for (Index j = 0; j < cols; ++j) c[static_cast<std::size_t>(i * cols + j)] += left * b[k * cols + j];
    }
  }
  return c;
}

/// Every array begins one element behind an aligned address.
template <Index K, Index N, class S>
void check_product(Index rows) {
  CAPTURE(rows);
  CAPTURE(K);
  CAPTURE(N);
  const auto a = numbers<S>(rows * K + 1, 1), b = numbers<S>(K * N + 1, 2), before = numbers<S>(rows * N + 1, 3);
  std::vector<S> packed(static_cast<std::size_t>(packed_size<K, N, S> + 2), S(77));
  pack<K, N>(b.data() + 1, packed.data() + 1);
  CHECK(packed.front() == 77);
  CHECK(packed.back() == 77);

  auto c = before, d = before, e = before;
  gemm<K, N, Write::store>(rows, a.data() + 1, packed.data() + 1, c.data() + 1, NoEpilogue{});
  gemm<K, N, Write::store>(rows, a.data() + 1, packed.data() + 1, d.data() + 1, Place{});
  gemm<K, N, Write::accumulate>(rows, a.data() + 1, packed.data() + 1, e.data() + 1, Place{});
  const auto expected = product(rows, K, N, a.data() + 1, K, 1, b.data() + 1);
  Index wrong = 0;
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < N; ++j) {
      const auto at = static_cast<std::size_t>(i * N + j);
      const double place = static_cast<double>(100 * i + j);
      wrong += c[at + 1] != expected[at];
      wrong += d[at + 1] != expected[at] + place;
      wrong += e[at + 1] != before[at + 1] + expected[at] + place;
    }
  }
  CHECK(wrong == 0);
  for (const auto* written : {&c, &d, &e}) {  // nothing before the beginning or behind the end
    CHECK(written->front() == before.front());
    CHECK(written->back() == before.back());
  }
}

template <Index K, Index N, class S>
void check_gradient(Index rows) {
  CAPTURE(rows);
  CAPTURE(K);
  CAPTURE(N);
  const auto x = numbers<S>(rows * K + 1, 4), dy = numbers<S>(rows * N + 1, 5), before = numbers<S>(K * N + 1, 6);
  auto dw = before;
  std::vector<S> scratch(static_cast<std::size_t>(gradient_scratch<S>(rows) + 1), S(77));
  gemm_gradient<K, N>(rows, x.data() + 1, dy.data() + 1, dw.data() + 1, scratch.data());
  const auto expected = product(K, rows, N, x.data() + 1, 1, K, dy.data() + 1);
  Index wrong = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) wrong += dw[i + 1] != before[i + 1] + expected[i];
  CHECK(wrong == 0);
  CHECK(dw.front() == before.front());
  CHECK(dw.back() == before.back());
  CHECK(scratch.back() == 77);
}

}  // namespace

TEST_SUITE_BEGIN("cpu/gemm");

TEST_CASE_TEMPLATE("products equal the triple loop for any number of rows", S, float, double) {
  constexpr Index L = lanes<S>;
  for (Index rows = 0; rows <= 40; ++rows) {
    check_product<1, L, S>(rows);
    check_product<5, 3 * L, S>(rows);
    check_product<32, 4 * L, S>(rows);
    check_product<17, 7 * L, S>(rows);
    check_product<6, L + 1, S>(rows);  // of more columns than whole vectors, and of fewer than one
    check_product<17, 8 * L - 1, S>(rows);
    check_product<3, L - 1, S>(rows);
    check_product<9, 1, S>(rows);
  }
  for (const Index rows : {127, 128, 129}) {
    check_product<5, 3 * L, S>(rows);
    check_product<128, 8 * L, S>(rows);
  }
}

TEST_CASE_TEMPLATE("weight gradients equal the triple loop, in one block of rows and in several", S, float, double) {
  constexpr Index L = lanes<S>;
  for (const Index rows : {0, 1, 2, 7, 33, 128, 256, 257, 600}) {
    check_gradient<1, L, S>(rows);
    check_gradient<13, 3 * L, S>(rows);
    check_gradient<20, 9 * L, S>(rows);
    check_gradient<2 * 29 * tile_rows + 11, 4 * L, S>(rows);  // x is copied in three parts
    check_gradient<20, 9 * L + 1, S>(rows);
    check_gradient<5, L - 1, S>(rows);
    check_gradient<2 * 29 * tile_rows + 11, 5 * L - 1, S>(rows);
  }
  for (const Index rows : {3, 257}) check_gradient<2 * rows_in_turn + 9, 3 * L + 1, S>(rows);  // in three turns
}

TEST_CASE("a large weight gradient lets who comes behind begin before it is done") {
  constexpr Index K = 2 * rows_in_turn + 9, N = 24;
  const auto x = numbers<float>(K, 4), dy = numbers<float>(N, 5);
  std::vector<float> dw(static_cast<std::size_t>(K * N)), scratch(static_cast<std::size_t>(gradient_scratch<float>(1)));
  Turns turns(2);
  turns.start();
  Turn second(turns, 1);
  Turn first(turns, 0);
  gemm_gradient<K, N>(1, x.data(), dy.data(), dw.data(), scratch.data(), &first);
  for (int addition = 0; addition < 3; ++addition) second.begin(), second.end();  // would wait for ever for a fourth
}

TEST_CASE_TEMPLATE("panels take any tile and hand the epilogue their rows and columns", S, float, double) {
  constexpr Index L = lanes<S>, inner = 9, N = 2 * L;
  for (Index rows = 0; rows <= 20; ++rows) {
    CAPTURE(rows);
    const auto a = numbers<S>(rows * inner, 7), b = numbers<S>(inner * N, 8);
    std::vector<S> c(static_cast<std::size_t>(rows * N)), d = c;
    panel<3, 2, Write::store>(rows, inner, a.data(), Static<inner>{}, Static<1>{}, b.data(), Static<N>{}, c.data(),
                              Static<N>{}, Place{}, 1000);
    panel<12, 2, Write::store>(rows, inner, a.data(), Static<inner>{}, Static<1>{}, b.data(), Static<N>{}, d.data(),
                               Static<N>{}, Place{}, 1000);
    const auto expected = product(rows, inner, N, a.data(), inner, 1, b.data());
    Index wrong = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto row = i / static_cast<std::size_t>(N), col = i % static_cast<std::size_t>(N);
      wrong += c[i] != expected[i] + static_cast<double>(1000 + 100 * row + col);
    }
    CHECK(wrong == 0);
    CHECK(c == d);
  }
}

TEST_CASE_TEMPLATE("strided products read and write any layout", S, float, double) {
  constexpr Index N = 3 * lanes<S>, inner = 9, rows = 19;
  const auto a = numbers<S>(inner * 20, 7), b = numbers<S>(inner * 2 * N, 8);
  std::vector<S> c(static_cast<std::size_t>(rows * (N + 5)), S(1));
  gemm_strided<N, Write::accumulate>(rows, inner, a.data(), Static<1>{}, Static<20>{}, b.data(), Static<2 * N>{},
                                     c.data(), Static<N + 5>{});
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < N + 5; ++j) {
      S expected = 1;
      for (Index k = 0; k < inner && j < N; ++k) {
        expected += a[static_cast<std::size_t>(i + k * 20)] * b[static_cast<std::size_t>(k * 2 * N + j)];
      }
      REQUIRE(c[static_cast<std::size_t>(i * (N + 5) + j)] == expected);
    }
  }
}

TEST_SUITE_END();
