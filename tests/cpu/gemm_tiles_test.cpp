// SPDX-License-Identifier: MIT
#include <simplx/cpu/gemm_tiles.hpp>

#include <simplx/cpu/gemm_bfloat16.hpp>

#include <cpu/emulated_unit.hpp>
#include <cpu/triple_loop.hpp>
#include <doctest/doctest.h>

#include <vector>

using namespace simplx;
using namespace simplx::cpu;
using test::numbers, test::product;

// Panels of SSE and NEON are narrower than a tile.
#if defined(__AVX2__)
namespace {

/// An epilogue that depends on the place of a vector.
struct Placed {
  template <class V>
  Register<V> at(Register<V> accumulator, Index row, Index col) const {
    return accumulator * 2 + static_cast<float>(row * 100 + col);
  }
};

/// Panels of threads that share them, and narrow ones.
void check_threads() {
  constexpr Index K = 64, N = 1040, rows = 50;
  const auto a = numbers<float>(rows * K, 1), b = numbers<float>(K * N, 2);
  std::vector<Twin> tiles(static_cast<std::size_t>(left_tiles(rows, K))), packed(K / 2 * N);
  pack_left_tiles<K>(rows, a.data(), tiles.data());
  pack_pairs<K, N>(b.data(), packed.data());
  std::vector<float> alone(rows * N), shared(rows * N);
  Team team(3);
  gemm_tiles<test::EmulatedUnit, K, N, Write::store>(rows, tiles.data(), packed.data(), alone.data(), Placed{});
  gemm_tiles<test::EmulatedUnit, K, N, Write::store>(rows, tiles.data(), packed.data(), shared.data(), Placed{}, &team);
  CHECK(shared == alone);
}

/// Every array begins one element past an aligned address; after each lies a number that must stay.
template <Index K, Index N>
void check_products(Index rows) {
  CAPTURE(rows);
  CAPTURE(K);
  CAPTURE(N);
  const auto a = numbers<float>(rows * K + 1, 1), b = numbers<float>(K * N + 1, 2);
  const auto before = numbers<float>(rows * N + 1, 3);
  auto c = before, placed = before, added = before;
  std::vector<Twin> tiles(static_cast<std::size_t>(left_tiles(rows, K)) + 1, 77), packed(K / 2 * N);
  pack_left_tiles<K>(rows, a.data() + 1, tiles.data());
  pack_pairs<K, N>(b.data() + 1, packed.data());
  using Unit = test::EmulatedUnit;
  gemm_tiles<Unit, K, N, Write::store>(rows, tiles.data(), packed.data(), c.data() + 1, NoEpilogue{});
  gemm_tiles<Unit, K, N, Write::store>(rows, tiles.data(), packed.data(), placed.data() + 1, Placed{});
  gemm_tiles<Unit, K, N, Write::accumulate>(rows, tiles.data(), packed.data(), added.data() + 1, NoEpilogue{});
  const auto expected = product(rows, K, N, a.data() + 1, K, 1, b.data() + 1);
  Index wrong = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Index row = static_cast<Index>(i) / N, col = static_cast<Index>(i) % N;
    const double place = static_cast<double>(row * 100 + col / lanes<float> * lanes<float>);
    wrong += c[i + 1] != expected[i];
    wrong += placed[i + 1] != 2 * expected[i] + place;
    wrong += added[i + 1] != before[i + 1] + expected[i];
  }
  CHECK(wrong == 0);
  for (const auto& written : {c, placed, added}) {
    CHECK(written.front() == before.front());
    CHECK(written.back() == before.back());
  }
  CHECK(tiles.back() == 77);
}

/// The rows of dw one part after the other, `part` of them at once.
template <Index K, Index N>
void check_gradient(Index rows, Index part) {
  CAPTURE(rows);
  CAPTURE(K);
  CAPTURE(N);
  const auto x = numbers<float>(rows * K + 1, 4), dy = numbers<float>(rows * N + 1, 5);
  const auto before = numbers<float>(K * N + 1, 6);
  auto dw = before;
  const Index pairs = round_up(rows, 32) / 2;
  std::vector<Twin> left(static_cast<std::size_t>(pairs * K) + 1, 77);
  std::vector<Twin> right(static_cast<std::size_t>(pairs * N) + 1, 77);
  pack_transposed_left_tiles<K>(rows, x.data() + 1, left.data());
  pack_right_tiles<N>(rows, dy.data() + 1, right.data());
  for (Index from = 0; from < K; from += part) {
    gemm_gradient_tiles<K, N>(test::EmulatedUnit{}, rows, left.data(), right.data(), dw.data() + 1, from,
                              std::min(K - from, part));
  }
  const auto expected = product(K, rows, N, x.data() + 1, 1, K, dy.data() + 1);
  Index wrong = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) wrong += dw[i + 1] != before[i + 1] + expected[i];
  CHECK(wrong == 0);
  CHECK(dw.front() == before.front());
  CHECK(dw.back() == before.back());
  CHECK(left.back() == 77);
  CHECK(right.back() == 77);
}

}  // namespace

TEST_SUITE("cpu/gemm_tiles") {
  TEST_CASE("products of tiles equal the triple loop for any number of rows") {
    for (const Index rows : {1, 7, 15, 16, 17, 31, 32, 33, 63, 100}) {
      check_products<32, 16>(rows);
      check_products<64, 64>(rows);
      check_products<96, 112>(rows);
      check_products<32, 96>(rows);
    }
  }
  TEST_CASE("threads share panels, and change no bits") { check_threads(); }
  TEST_CASE("gradients by tiles equal the triple loop, at once and in parts") {
    for (const Index rows : {0, 1, 2, 15, 31, 32, 33, 64, 95}) {
      check_gradient<16, 16>(rows, 16);
      check_gradient<80, 112>(rows, 80);
      check_gradient<80, 96>(rows, 48);
      check_gradient<64, 64>(rows, 32);
    }
  }
}
#endif
