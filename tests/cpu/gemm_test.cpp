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
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<S>((static_cast<int>(i) * 7 + seed * 13) % 17 - 8);
  return values;
}

template <Index K, Index N, class S>
void check_shape(Index rows) {
  CAPTURE(rows);
  const auto a = numbers<S>(rows * K, 1), b = numbers<S>(K * N, 2), before = numbers<S>(rows * N, 3);
  std::vector<S> packed(static_cast<std::size_t>(packed_size<K, N, S>)), transposed(packed.size()), flipped(b.size());
  for (Index k = 0; k < K; ++k) {
    for (Index n = 0; n < N; ++n) flipped[static_cast<std::size_t>(n * K + k)] = b[static_cast<std::size_t>(k * N + n)];
  }
  pack<K, N>(b.data(), packed.data());
  pack_transposed<K, N>(flipped.data(), transposed.data());
  REQUIRE(packed == transposed);

  auto c = before;
  gemm<K, N, Write::store>(rows, a.data(), packed.data(), c.data(), Identity{});
  auto d = before;
  gemm<K, N, Write::accumulate>(rows, a.data(), packed.data(), d.data(),
                                [](auto sums, Index row, Index col) __attribute__((always_inline)) {
                                  for (int l = 0; l < lanes<S>; ++l) sums[l] += static_cast<S>(100 * row + col + l);
                                  return sums;
                                });
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < N; ++j) {
      S expected = 0;
      for (Index k = 0; k < K; ++k) expected += a[static_cast<std::size_t>(i * K + k)] * b[static_cast<std::size_t>(k * N + j)];
      const auto at = static_cast<std::size_t>(i * N + j);
      REQUIRE(c[at] == expected);
      REQUIRE(d[at] == before[at] + expected + static_cast<S>(100 * i + j));
    }
  }
  CHECK(c.back() == before.back());  // nothing is written behind the end
}

template <Index K, Index N, class S>
void check_gradient(Index rows) {
  CAPTURE(rows);
  const auto x = numbers<S>(rows * K, 4), dy = numbers<S>(rows * N, 5), before = numbers<S>(K * N, 6);
  auto dw = before;
  std::vector<S> scratch(static_cast<std::size_t>(rows * 64));
  gemm_gradient<K, N>(rows, x.data(), dy.data(), dw.data(), scratch.data());
  for (Index k = 0; k < K; ++k) {
    for (Index n = 0; n < N; ++n) {
      S expected = before[static_cast<std::size_t>(k * N + n)];
      for (Index i = 0; i < rows; ++i) {
        expected += x[static_cast<std::size_t>(i * K + k)] * dy[static_cast<std::size_t>(i * N + n)];
      }
      REQUIRE(dw[static_cast<std::size_t>(k * N + n)] == expected);
    }
  }
  CHECK(dw.back() == before.back());
}

}  // namespace

TEST_SUITE_BEGIN("cpu/gemm");

TEST_CASE_TEMPLATE("products equal the triple loop, for any number of rows", S, float, double) {
  constexpr Index L = lanes<S>;
  for (Index rows = 1; rows <= 14; ++rows) {
    check_shape<1, L, S>(rows);
    check_shape<5, 3 * L, S>(rows);
    check_shape<32, 4 * L, S>(rows);
    check_shape<17, 7 * L, S>(rows);
  }
  check_shape<33, 8 * L, S>(127);
}

TEST_CASE_TEMPLATE("weight gradients equal the triple loop", S, float, double) {
  constexpr Index L = lanes<S>;
  for (const Index rows : {1, 2, 7, 16, 33}) {
    check_gradient<1, L, S>(rows);
    check_gradient<13, 3 * L, S>(rows);
    check_gradient<20, 9 * L, S>(rows);
  }
}

TEST_CASE_TEMPLATE("strided products read and write any layout", S, float, double) {
  constexpr Index N = 3 * lanes<S>, inner = 9, rows = 11;
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
