// SPDX-License-Identifier: MIT
#include <simplx/cpu/int8.hpp>

#include <simplx/cpu/linear_product.hpp>
#include <simplx/cpu/random_numbers.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

using namespace simplx;
using namespace simplx::cpu;

namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

/// A matrix (K, N), packed as it is, or as the transpose of what lies in memory.
struct Packed {
  Index K, N;
  bool transposed;
  std::vector<float> weight = std::vector<float>(at(K * N)), room = {};

  float& operator()(Index k, Index n) { return weight[at(transposed ? n * K + k : k * N + n)]; }
  void pack() {
    room.assign(at(round_up(N, alignment) + K * round_up(N, alignment) / 4 + 1), -7.f);
    transposed ? pack_bytes<true>(K, N, weight.data(), room.data())
               : pack_bytes<false>(K, N, weight.data(), room.data());
    CHECK(room.back() == -7);
  }
  float scale(Index n) const { return room[at(n)]; }
  /// By the words of pack: wide panels, then those of a vector, row by row.
  int byte(Index k, Index n) const {
    constexpr Index L = lanes<float>, wide = panel_width<float>;
    const Index width = n < N / wide * wide ? wide : L, panel = n / width * width;
    return packed_bytes(N, room.data())[panel * K + k * width + n % width];
  }
};

/// Widths that end in wide panels, in vectors, and in a part of one.
template <class F>
void each_shape(const F& f) {
  constexpr Index L = lanes<float>, wide = panel_width<float>;
  for (const bool transposed : {false, true}) {
    for (const Index K : {Index(2), L - 1, L, 3 * L + 5}) {
      for (const Index N : {L, wide, 2 * wide + 1, 3 * wide - 1, wide + L + 3, Index(3)}) {
        f(Packed{.K = K, .N = N, .transposed = transposed});
      }
    }
  }
}

/// Whole numbers up to 127, which each column has, times a power of two for each: bytes hold them as they are.
float whole_steps(Index k, Index n) {
  const int step = k == n % 2 ? 127 : static_cast<int>(bits(3, static_cast<std::uint64_t>(1000 * k + n)) % 255) - 127;
  return std::ldexp(static_cast<float>(step), static_cast<int>(n % 5) - 2);
}
float small_number(Index i) { return static_cast<float>(i * 7 % 17 - 8); }

/// Adds the place of a number.
struct Placed {
  template <class V>
  Register<V> at(Register<V> sums, Index row, Index col) const {
    return sums + splat<V>(static_cast<float>(100 * row)) + load<V>(columns + col);
  }
  const float* columns;
};

/// X W of these weights, alone and by a team, is the sum by hand.
template <Index K, Index N, bool transposed>
void check_product() {
  using Product = LinearProduct<Cpu<float, Path::int8>, K, N, transposed, true>;
  CAPTURE(K);
  CAPTURE(N);
  CAPTURE(transposed);
  Packed weights{.K = K, .N = N, .transposed = transposed};
  for (Index k = 0; k < K; ++k) {
    for (Index n = 0; n < N; ++n) weights(k, n) = whole_steps(k, n);
  }
  std::vector<float> packed(at(Product::room)), columns(at(N));
  Product::prepare(weights.weight.data(), packed.data(), nullptr);
  for (Index n = 0; n < N; ++n) columns[at(n)] = small_number(n);
  Team team(3);
  for (const Index rows : {1, 2, 3, 4, 5, 6, 7, 13, 64}) {
    std::vector<float> x(at(rows * K)), y(at(rows * N)), shared = y, finished = y;
    std::vector<float> scratch(at(Product::scratch(rows)));
    for (Index i = 0; i < rows * K; ++i) x[at(i)] = small_number(i);
    const auto multiply = [&](std::vector<float>& to, const auto& epilogue, auto threads) {
      Product::forward(rows, x.data(), weights.weight.data(), packed.data(), scratch.data(), to.data(), epilogue,
                       threads);
    };
    multiply(y, NoEpilogue{}, nullptr), multiply(shared, NoEpilogue{}, &team);
    if constexpr (Product::takes_epilogue) multiply(finished, Placed{columns.data()}, nullptr);
    Index wrong = 0;
    for (Index row = 0; row < rows; ++row) {
      for (Index n = 0; n < N; ++n) {
        float sum = 0;
        for (Index k = 0; k < K; ++k) sum += x[at(row * K + k)] * weights(k, n);
        wrong += y[at(row * N + n)] != sum;
        if (Product::takes_epilogue) {
          wrong += finished[at(row * N + n)] != sum + static_cast<float>(100 * row) + columns[at(n)];
        }
      }
    }
    CAPTURE(rows);
    CHECK(wrong == 0);
    CHECK(shared == y);
  }
}

}  // namespace

TEST_SUITE_BEGIN("cpu/int8");

TEST_CASE("a weight is the nearest of 255 steps of its column, whose largest has 127 of them") {
  each_shape([](Packed matrix) {
    CAPTURE(matrix.K);
    CAPTURE(matrix.N);
    CAPTURE(matrix.transposed);
    for (std::size_t i = 0; i < matrix.weight.size(); ++i) matrix.weight[i] = static_cast<float>(normal(5, i));
    matrix.pack();
    Index far = 0, narrow = 0;
    for (Index n = 0; n < matrix.N; ++n) {
      float largest = 0;
      int most = 0;
      for (Index k = 0; k < matrix.K; ++k) {
        const float w = matrix(k, n), scale = matrix.scale(n);
        largest = std::max(largest, std::abs(w)), most = std::max(most, std::abs(matrix.byte(k, n)));
        far += std::abs(w - scale * static_cast<float>(matrix.byte(k, n))) > scale * 0.50001f;
      }
      narrow += most != 127 || matrix.scale(n) != largest / 127;
    }
    CHECK(far == 0);
    CHECK(narrow == 0);
    constexpr Index L = lanes<float>;
    for (Index k = 0; k < matrix.K; ++k) {  // what fills up the last vector
      for (Index n = matrix.N; n < round_up(matrix.N, L); ++n) {
        CHECK(packed_bytes(matrix.N, matrix.room.data())[matrix.N / L * L * matrix.K + k * L + n % L] == 0);
      }
    }
  });
}

TEST_CASE("halves go to the even step, and no weight beyond the last") {
  Packed matrix{.K = 6, .N = lanes<float>, .transposed = false};
  const float steps[] = {127, 0.5f, 1.5f, -2.5f, -126.5f, -0.25f};
  const int nearest[] = {127, 0, 2, -2, -126, 0};
  for (Index k = 0; k < 6; ++k) matrix(k, 2) = 4 * steps[k];
  matrix.pack();
  CHECK(matrix.scale(2) == 4);
  for (Index k = 0; k < 6; ++k) CHECK(matrix.byte(k, 2) == nearest[k]);
  for (int i = 1; i < 2000; ++i) {  // largest / (largest / 127) may be more than 127
    matrix(0, 1) = -static_cast<float>(i) / 7;
    matrix.pack();
    CHECK(matrix.byte(0, 1) == -127);
  }
}

TEST_CASE("a column that is not finite makes its products so, and zeros and tiny weights make them zero") {
  using Limits = std::numeric_limits<float>;
  constexpr Index K = 40, N = 2 * panel_width<float> + 5;
  const auto check = [&]<bool transposed>() {
    using Product = LinearProduct<Cpu<float, Path::int8>, K, N, transposed, true>;
    Packed matrix{.K = K, .N = N, .transposed = transposed};
    for (Index k = 0; k < K; ++k) {
      for (Index n = 0; n < N; ++n) matrix(k, n) = whole_steps(k, n);
      matrix(k, 3) = 0, matrix(k, 4) = 171 * Limits::denorm_min(), matrix(k, 6) = k % 2 ? Limits::max() : -Limits::max();
    }
    matrix(7, 0) = Limits::quiet_NaN(), matrix(0, 1) = -Limits::infinity(), matrix(K - 1, N - 1) = Limits::infinity();
    matrix(0, 2) = -Limits::quiet_NaN(), matrix(1, 2) = 1;
    std::vector<float> packed(at(Product::room)), scratch(at(Product::scratch(1))), x(at(K), 1.f), y(at(N));
    Product::prepare(matrix.weight.data(), packed.data(), nullptr);
    Product::forward(1, x.data(), matrix.weight.data(), packed.data(), scratch.data(), y.data());
    for (const Index n : {Index(0), Index(1), Index(2), N - 1}) CHECK(!std::isfinite(y[at(n)]));
    CHECK(y[3] == 0);
    CHECK(y[4] == 0);
    CHECK(y[6] == 0);  // as many of either sign
    for (Index n = 7; n < N - 1; ++n) {
      float sum = 0;
      for (Index k = 0; k < K; ++k) sum += matrix(k, n);
      CHECK(y[at(n)] == sum);
    }
  };
  check.operator()<false>(), check.operator()<true>();
}

TEST_CASE("products with weights that bytes hold are exact, of any rows and for any threads") {
  constexpr Index L = lanes<float>, wide = panel_width<float>;
  check_product<37, 2 * wide + L + 3, false>(), check_product<37, 2 * wide + L + 3, true>();
  check_product<64, 8 * wide, false>(), check_product<64, 8 * wide, true>();
  check_product<2, L, false>(), check_product<5, 5, true>();
  check_product<1, 2 * L, false>(), check_product<24, 1, true>();  // which stay floats
  check_product<300, 128, true>();
}

TEST_SUITE_END();
