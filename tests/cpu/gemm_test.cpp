// SPDX-License-Identifier: MIT
#include <simplx/cpu/gemm.hpp>

#include <cpu/triple_loop.hpp>
#include <doctest/doctest.h>

#include <vector>

using namespace simplx;
using namespace simplx::cpu;
using test::numbers, test::product;

namespace {

/// Adds a number that names the element: 100 row + col.
struct Place {
  template <class V>
  __attribute__((always_inline)) Register<V> at(Register<V> sums, Index row, Index col) const {
    using R = Register<V>;
    const R first = splat<R>(static_cast<Lane<R>>(100 * row + col));
    if constexpr (std::is_arithmetic_v<R>) {
      return sums + first;
    } else {
      return sums + first + lane_numbers<R>();
    }
  }
};

/// Every array begins one element past an aligned address.
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
  gemm<K, N, Write::accumulate>(rows, a.data() + 1, packed.data() + 1, e.data() + 1, NoEpilogue{});
  const auto expected = product(rows, K, N, a.data() + 1, K, 1, b.data() + 1);
  Index wrong = 0;
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < N; ++j) {
      const auto at = static_cast<std::size_t>(i * N + j);
      const double place = static_cast<double>(100 * i + j);
      wrong += c[at + 1] != expected[at];
      wrong += d[at + 1] != expected[at] + place;
      wrong += e[at + 1] != before[at + 1] + expected[at];
    }
  }
  CHECK(wrong == 0);
  for (const auto* written : {&c, &d, &e}) {  // nothing before the beginning or after the end
    CHECK(written->front() == before.front());
    CHECK(written->back() == before.back());
  }
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

TEST_CASE_TEMPLATE("products of a long inner dimension are summed block by block", S, float, double) {
  constexpr Index L = lanes<S>, K = 2 * panel_bytes / (panel_width<S> * Index(sizeof(S))) + 37;
  for (const Index rows : {0, 1, 6, 13}) {
    check_product<K, 8 * L, S>(rows);
    check_product<K, 5 * L + 3, S>(rows);
  }
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
