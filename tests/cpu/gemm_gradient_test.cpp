// SPDX-License-Identifier: MIT
#include <simplx/cpu/gemm_gradient.hpp>

#include <cpu/triple_loop.hpp>
#include <doctest/doctest.h>

#include <vector>

using namespace simplx;
using namespace simplx::cpu;
using test::numbers, test::product;

namespace {

/// Every array begins one element past an aligned address.
template <Index K, Index N, class S>
void check_gradient(Index rows) {
  CAPTURE(rows);
  CAPTURE(K);
  CAPTURE(N);
  const auto x = numbers<S>(rows * K + 1, 4), dy = numbers<S>(rows * N + 1, 5), before = numbers<S>(K * N + 1, 6);
  auto dw = before;
  std::vector<S> scratch(static_cast<std::size_t>(gradient_scratch<S>(rows, N) + 1), S(77));
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

TEST_SUITE_BEGIN("cpu/gemm_gradient");

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
  for (const Index rows : {1, 129, 300}) {  // as wide as gradients must be for AVX-512 to copy x
    check_gradient<2 * 64 * tile_rows + 11, 32 * L, S>(rows);
    check_gradient<47, 32 * L + 1, S>(rows);
  }
  for (const Index rows : {3, 257}) check_gradient<2 * rows_in_turn + 9, 3 * L + 1, S>(rows);  // in three turns
}

TEST_CASE("a large weight gradient lets what comes after begin before it is done") {
  constexpr Index K = 2 * rows_in_turn + 9, N = 24;
  const auto x = numbers<float>(K, 4), dy = numbers<float>(N, 5);
  std::vector<float> dw(static_cast<std::size_t>(K * N));
  std::vector<float> scratch(static_cast<std::size_t>(gradient_scratch<float>(1, N)));
  detail::Turns turns(2);
  turns.start();
  detail::Turn second(turns, 1);
  detail::Turn first(turns, 0);
  gemm_gradient<K, N>(1, x.data(), dy.data(), dw.data(), scratch.data(), &first);
  for (int addition = 0; addition < 3; ++addition) second.begin(), second.end();  // would wait for ever for a fourth
}

TEST_SUITE_END();
