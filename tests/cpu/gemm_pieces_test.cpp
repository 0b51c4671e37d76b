// SPDX-License-Identifier: MIT
#include <simplx/cpu/gemm_pieces.hpp>

#include <cpu/emulated_unit.hpp>
#include <cpu/triple_loop.hpp>
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace simplx;
using namespace simplx::cpu;
using test::product;

namespace {

constexpr test::EmulatedUnit unit;
// What is left out of a product is below 2^-21 of it, 8 roundings, mostly far below; and the emulated unit rounds its
// sums after each pair.
constexpr double bound = 8;

std::vector<float> numbers(Index count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count) + 1);
  for (float& x : values) x = normal(random);
  return values;
}

/// An epilogue that depends on the place of a vector.
struct Placed {
  template <class V>
  Register<V> at(Register<V> accumulator, Index row, Index col) const {
    return accumulator * 2 + static_cast<float>(row * 100 + col);
  }
};

/// The weights of a product as they lie in memory and as the unit takes them.
template <Index K, Index N, bool transposed>
struct Weights {
  std::vector<float> dense, stored;
  std::vector<Twin> packed = std::vector<Twin>(PackedPieces<K, N>::words + 1, 77);

  explicit Weights(std::vector<float> numbers) : dense(std::move(numbers)), stored(dense) {
    for (Index k = 0; transposed && k < K; ++k) {
      for (Index n = 0; n < N; ++n) at(stored, n * K + k) = at(dense, k * N + n);
    }
    PackedPieces<K, N>::template pack<transposed>(stored.data(), packed.data());
    CHECK(packed.back() == 77);
  }
  static float& at(std::vector<float>& values, Index i) { return values[static_cast<std::size_t>(i)]; }

  template <Write mode, class Epilogue, class Threads = std::nullptr_t>
  void multiply(Index rows, const float* a, float* c, const Epilogue& epilogue, Threads team = nullptr) const {
    std::vector<Twin> scratch(static_cast<std::size_t>(product_pieces(rows, K)) + 1, 77);
    gemm_pieces<test::EmulatedUnit, K, N, transposed, mode>(rows, a, stored.data(), packed.data(), c, epilogue,
                                                            scratch.data(), team);
    CHECK(scratch.back() == 77);
  }
};

/// The largest difference of c from before + a b, in units of float's rounding of what is added up.
double roundings(Index rows, Index inner, Index cols, const float* a, Index a_row, Index a_col, const float* b,
                 const float* before, const float* c) {
  const auto sizes = [](const float* from, Index count) {
    std::vector<float> values(from, from + count);
    for (float& x : values) x = std::abs(x);
    return values;
  };
  const auto exact = product(rows, inner, cols, a, a_row, a_col, b);
  const auto added =
      product(rows, inner, cols, sizes(a, rows * inner).data(), a_row, a_col, sizes(b, inner * cols).data());
  double worst = 0;
  for (Index i = 0; i < rows * cols; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double start = before ? before[i] : 0;
    worst = std::max(worst, std::abs(c[i] - start - exact[at]) / (added[at] + std::abs(start) + 1e-30));
  }
  return worst * std::ldexp(1, 24);
}

template <Index K, Index N, bool transposed>
void check_products(Index rows) {
  CAPTURE(rows);
  CAPTURE(K);
  CAPTURE(N);
  const Weights<K, N, transposed> weights(numbers(K * N, 2));
  const auto a = numbers(rows * K + 1, 1), before = numbers(rows * N + 1, 3);
  auto c = before, placed = before, added = before;
  weights.template multiply<Write::store>(rows, a.data() + 1, c.data() + 1, NoEpilogue{});
  weights.template multiply<Write::store>(rows, a.data() + 1, placed.data() + 1, Placed{});
  weights.template multiply<Write::accumulate>(rows, a.data() + 1, added.data() + 1, NoEpilogue{});
  const auto expected = product(rows, K, N, a.data() + 1, K, 1, weights.dense.data());
  const auto place = [](Index i) { return static_cast<double>(i / N * 100 + i % N / lanes<float> * lanes<float>); };
  const auto at = [](const auto& values, Index i) { return static_cast<double>(values[static_cast<std::size_t>(i)]); };
  const auto worst = [&](const float* start, const std::vector<float>& to) {
    return roundings(rows, K, N, a.data() + 1, K, 1, weights.dense.data(), start, to.data() + 1);
  };
  CHECK(worst(nullptr, c) < bound);
  CHECK(worst(before.data() + 1, added) < bound);
  for (Index i = 0; i < rows * N; ++i) {
    const double exact = 2 * at(expected, i) + place(i);
    REQUIRE(std::abs(at(placed, i + 1) - exact) < 1e-5 * (std::abs(exact) + std::sqrt(K)));
  }
  for (const auto& written : {c, placed, added}) {
    CHECK(written.front() == before.front());
    CHECK(written.back() == before.back());
  }
}

/// dw += x^T dy with one number of x replaced.
template <Index K, Index N>
std::vector<float> gradient(Index rows, std::vector<float> x, const std::vector<float>& dy, std::vector<float> dw) {
  std::vector<Twin> scratch(static_cast<std::size_t>(gradient_pieces(rows, K, N)) + 1, 77);
  gemm_gradient_pieces<K, N>(unit, rows, x.data() + 1, dy.data() + 1, dw.data() + 1, scratch.data());
  CHECK(scratch.back() == 77);
  return dw;
}

template <Index K, Index N>
void check_gradient(Index rows) {
  CAPTURE(rows);
  CAPTURE(K);
  CAPTURE(N);
  const auto x = numbers(rows * K + 1, 4), dy = numbers(rows * N + 1, 5), before = numbers(K * N + 1, 6);
  const auto dw = gradient<K, N>(rows, x, dy, before);
  CHECK(roundings(K, rows, N, x.data() + 1, 1, K, dy.data() + 1, before.data() + 1, dw.data() + 1) < bound);
  CHECK(dw.front() == before.front());
  CHECK(dw.back() == before.back());
}

/// A row that the unit cannot take has the result of the vectors, and all others have the bits that they have without
/// it.
template <Index K, Index N, bool transposed, Write mode>
void check_broken_row(float value, Index rows, Index broken) {
  CAPTURE(value);
  CAPTURE(K);
  const Weights<K, N, transposed> weights(numbers(K * N, 2));
  const auto whole = numbers(rows * K, 1);
  auto a = whole;
  a[static_cast<std::size_t>(broken * K + K - 3)] = value;
  std::vector<float> expected(static_cast<std::size_t>(rows * N), 1), c = expected;
  weights.template multiply<mode>(rows, whole.data(), expected.data(), NoEpilogue{});
  weights.template multiply<mode>(rows, a.data(), c.data(), NoEpilogue{});
  for (Index i = 0; i < rows * N; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (i / N != broken) {
      REQUIRE(c[at] == expected[at]);
    } else if (std::isnan(value)) {
      REQUIRE(std::isnan(c[at]));
    } else if (std::isinf(value)) {
      const float sign = weights.dense[static_cast<std::size_t>((K - 3) * N + i % N)];
      REQUIRE(c[at] == std::copysign(value, sign * value));
    } else {
      const float taken = whole[static_cast<std::size_t>(broken * K + K - 3)];
      const float without = taken * weights.dense[static_cast<std::size_t>((K - 3) * N + i % N)];
      REQUIRE(c[at] == doctest::Approx(expected[at] - without).epsilon(1e-4).scale(10));
    }
  }
}

}  // namespace

TEST_SUITE("cpu/gemm_pieces") {
  TEST_CASE("threads share few rows, and change no bits") {
    const auto check = [](auto is_transposed) {
      constexpr Index K = 256, N = 1056;
      const Weights<K, N, decltype(is_transposed)::value> weights(numbers(K * N, 2));
      const auto a = numbers(few_rows * K, 1);
      for (const Index rows : {Index(1), few_rows}) {
        const auto size = static_cast<std::size_t>(rows * N);
        std::vector<float> alone(size), shared(size);
        Team one(1), team(3);
        weights.template multiply<Write::store>(rows, a.data(), alone.data(), Placed{}, &one);
        weights.template multiply<Write::store>(rows, a.data(), shared.data(), Placed{}, &team);
        CHECK(shared == alone);
        weights.template multiply<Write::store>(rows, a.data(), alone.data(), Placed{});
        for (std::size_t i = 0; i < size; ++i) CHECK(std::abs(shared[i] - alone[i]) <= 1e-5f * std::abs(alone[i]));
      }
    };
    check(std::false_type{});
    check(std::true_type{});
  }
  TEST_CASE("threads share many rows, cutting them up and multiplying, and change no bits") {
    constexpr Index K = piece_depth + 32, N = 96, rows = 40;
    const Weights<K, N, false> weights(numbers(K * N, 2));
    auto a = numbers(rows * K, 1);
    a[20 * K + 3] = 1e30f;  // a row for vectors
    std::vector<float> alone(rows * N), shared(rows * N);
    Team one(1), team(3);
    weights.multiply<Write::store>(rows, a.data(), alone.data(), Placed{}, &one);
    weights.multiply<Write::store>(rows, a.data(), shared.data(), Placed{}, &team);
    CHECK(shared == alone);
    weights.multiply<Write::store>(rows, a.data(), alone.data(), Placed{});
    CHECK(shared == alone);
  }
  TEST_CASE("products are those of floats, for any number of rows, of weights that lie either way") {
    for (const Index rows : {1, 4, 7, 16, 17, 33, 100}) {  // up to four are the vectors'
      check_products<32, 32, false>(rows);
      check_products<96, 64, true>(rows);
      check_products<64, 160, false>(rows);
    }
    check_products<64, 32, false>(260);   // more rows than are multiplied at once
    check_products<1056, 32, true>(20);   // more of the inner dimension than is multiplied at once
    check_products<2080, 32, false>(20);
  }
  TEST_CASE("gradients are those of floats, for any number of rows") {
    for (const Index rows : {0, 1, 2, 31, 33, 64, 150}) {
      check_gradient<32, 32>(rows);
      check_gradient<96, 64>(rows);
    }
    check_gradient<1056, 32>(40);
    check_gradient<32, 544>(40);
    check_gradient<4192, 32>(33);  // two turns
  }
  TEST_CASE("a row with an infinity, what is no number or a tiny one is the vectors', and nobody else's") {
    for (const float value : {INFINITY, -INFINITY, NAN, 1e-35f, std::numeric_limits<float>::denorm_min()}) {
      check_broken_row<64, 32, false, Write::store>(value, 40, 12);
      check_broken_row<64, 32, true, Write::accumulate>(value, 20, 19);
      check_broken_row<1056, 32, true, Write::store>(value, 8, 0);
      check_broken_row<1056, 32, false, Write::accumulate>(value, 8, 1);
    }
  }
  TEST_CASE("epilogues of a row that is the vectors' know their place") {
    const Weights<64, 32, false> weights(numbers(64 * 32, 2));
    auto a = numbers(40 * 64, 1);
    std::vector<float> plain(40 * 32), placed(40 * 32);
    a[17 * 64] = 1e-35f, a[18 * 64] = 1e-35f;
    weights.multiply<Write::store>(40, a.data(), plain.data(), NoEpilogue{});
    weights.multiply<Write::store>(40, a.data(), placed.data(), Placed{});
    for (Index i = 0; i < 40 * 32; ++i) {
      const auto place = static_cast<float>(i / 32 * 100 + i % 32 / lanes<float> * lanes<float>);
      REQUIRE(placed[static_cast<std::size_t>(i)] == plain[static_cast<std::size_t>(i)] * 2 + place);
    }
  }
  TEST_CASE("products that are too small for the unit are exact") {
    auto dense = numbers(32 * 32, 2);
    for (float& w : dense) w = std::ldexp(std::round(8 * w), -70);
    const Weights<32, 32, true> weights(dense);
    std::vector<float> a(5 * 32), c(5 * 32);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::ldexp(static_cast<float>(i % 7) - 3, -70);
    weights.multiply<Write::store>(5, a.data(), c.data(), NoEpilogue{});
    const auto expected = product(5, 32, 32, a.data(), 32, 1, weights.dense.data());
    bool some = false;
    for (std::size_t i = 0; i < c.size(); ++i) {
      REQUIRE(static_cast<double>(c[i]) == expected[i]);
      some |= c[i] != 0;
    }
    CHECK(some);
  }
  TEST_CASE("weights that the unit cannot take are the vectors' in all rows") {
    auto dense = numbers(64 * 32, 2);
    dense[5 * 32 + 9] = INFINITY;
    const Weights<64, 32, false> weights(dense);
    const auto a = numbers(40 * 64, 1);
    std::vector<float> c(40 * 32);
    weights.multiply<Write::store>(40, a.data(), c.data(), NoEpilogue{});
    for (Index i = 0; i < 40 * 32; ++i) {
      const float sign = a[static_cast<std::size_t>(i / 32 * 64 + 5)], value = c[static_cast<std::size_t>(i)];
      REQUIRE((i % 32 == 9 ? value == std::copysign(INFINITY, sign) : std::isfinite(value)));
    }
  }
  TEST_CASE("a gradient of what the unit cannot take is the vectors'") {
    auto x = numbers(40 * 64 + 1, 4);
    const auto dy = numbers(40 * 544 + 1, 5), before = numbers(64 * 544 + 1, 6);
    const auto whole = gradient<64, 544>(40, x, dy, before);
    x[1 + 7 * 64 + 20] = INFINITY;
    const auto broken = gradient<64, 544>(40, x, dy, before);
    for (std::size_t i = 0; i < 64 * 544; ++i) {
      if (i / 544 == 20) {
        REQUIRE(broken[i + 1] == std::copysign(INFINITY, dy[1 + 7 * 544 + i % 544]));
      } else {
        REQUIRE(broken[i + 1] == doctest::Approx(whole[i + 1]).epsilon(1e-4).scale(10));
      }
    }
  }
}
