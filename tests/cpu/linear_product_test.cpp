// SPDX-License-Identifier: MIT
#include <simplx/cpu/linear_product.hpp>

#include <simplx/cpu/random_numbers.hpp>

#include <doctest/doctest.h>

#include <vector>

using namespace simplx;
using namespace simplx::cpu;

namespace {

/// Small whole numbers, which bfloat16 holds too: sums in any order are exact.
template <class S>
std::vector<S> numbers(Index count, int seed) {
  std::vector<S> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<S>((static_cast<int>(i) * 7 + seed * 13) % 17 - 8);
  }
  return values;
}

/// What the three products of a layer are given, and what they leave. No template but of the number type: there are
/// many layers.
template <class S>
struct Case {
  Index K, N, rows;
  bool transposed;
  Index room = std::max<Index>(rows, 1);  // no row is no null pointer
  std::vector<S> x = numbers<S>(room * K, 1), weight = numbers<S>(K * N, 2), dy = numbers<S>(room * N, 3);
  std::vector<S> before_dx = numbers<S>(room * K, 4), before_dw = numbers<S>(K * N, 5);
  std::vector<S> y = dy, dx = before_dx, stored_dx = std::vector<S>(x.size(), S(99)), dw = before_dw;

  /// How many numbers are not the sums by hand.
  Index wrong() const {
    const auto at = [](const auto& values, Index i) { return values[static_cast<std::size_t>(i)]; };
    const auto place = [&](Index k, Index n) { return transposed ? n * K + k : k * N + n; };
    Index wrong = 0;
    for (Index i = 0; i < rows; ++i) {
      for (Index n = 0; n < N; ++n) {
        S sum = 0;
        for (Index k = 0; k < K; ++k) sum += at(x, i * K + k) * at(weight, place(k, n));
        wrong += at(y, i * N + n) != sum;
      }
      for (Index k = 0; k < K; ++k) {
        S sum = 0;
        for (Index n = 0; n < N; ++n) sum += at(dy, i * N + n) * at(weight, place(k, n));
        wrong += at(dx, i * K + k) != at(before_dx, i * K + k) + sum;
        wrong += at(stored_dx, i * K + k) != sum;
      }
    }
    for (Index k = 0; k < K; ++k) {
      for (Index n = 0; n < N; ++n) {
        S sum = at(before_dw, place(k, n));
        for (Index i = 0; i < rows; ++i) sum += at(x, i * K + k) * at(dy, i * N + n);
        wrong += at(dw, place(k, n)) != sum;
      }
    }
    return wrong;
  }
};

template <class S>
void check_sums(const Case<S>& found) {
  CAPTURE(found.K);
  CAPTURE(found.N);
  CAPTURE(found.rows);
  CAPTURE(found.transposed);
  CHECK(found.wrong() == 0);
}

/// All three products against sums by hand.
template <class Backend, Index K, Index N, bool transposed, bool prepared>
void check(Index rows) {
  using Product = LinearProduct<Backend, K, N, transposed, prepared>;
  using S = typename Backend::Scalar;
  Case<S> c{K, N, rows, transposed};
  std::vector<S> packed(Product::room), turned(Product::room);
  std::vector<S> scratch(static_cast<std::size_t>(Product::scratch(c.room)) + 1, S(77));
  const S *x = c.x.data(), *weight = c.weight.data(), *dy = c.dy.data();
  S *panels = packed.data(), *panels_of_transpose = turned.data(), *room = scratch.data();
  if constexpr (prepared) Product::prepare(weight, panels, panels_of_transpose);
  Product::forward(rows, x, weight, panels, room, c.y.data());
  Product::template input_gradient<Write::accumulate>(rows, dy, weight, panels_of_transpose, room, c.dx.data());
  Product::template input_gradient<Write::store>(rows, dy, weight, panels_of_transpose, room, c.stored_dx.data());
  Product::add_weight_gradient(rows, x, dy, c.dw.data(), room, nullptr);
  CHECK(scratch.back() == 77);
  check_sums(c);
}

template <class Backend, Index K, Index N>
void check_all(Index rows) {
  check<Backend, K, N, false, true>(rows), check<Backend, K, N, true, true>(rows);
  check<Backend, K, N, false, false>(rows), check<Backend, K, N, true, false>(rows);
}

/// A width of 1 to 128 that the compiler draws, every other one a whole number of vectors and strips.
consteval Index drawn_width(std::uint64_t place) {
  return place % 4 < 2 ? 32 * static_cast<Index>(1 + bits(1, place) % 4) : static_cast<Index>(1 + bits(1, place) % 128);
}

template <class Backend, std::uint64_t... draw>
void check_drawn(std::integer_sequence<std::uint64_t, draw...>) {
  (check<Backend, drawn_width(3 * draw), drawn_width(3 * draw + 1), draw % 3 == 0, draw % 5 != 0>(
       static_cast<Index>(1 + bits(2, draw) % 200)),
   ...);
}

}  // namespace

TEST_SUITE_BEGIN("cpu/linear_product");

TEST_CASE_TEMPLATE("the three products of a layer, for widths that are and are not whole vectors", Backend, Cpu<float>,
                   Cpu<float, Path::vectors>, Cpu<double>, Cpu<double, Path::reference>, Cpu<float, Path::bfloat16>) {
  check_all<Backend, 32, 64>(13);
  check_all<Backend, 16, 48>(1);
  check_all<Backend, 37, 21>(9);
  check_all<Backend, 3, 5>(4);
  check_all<Backend, 64, 3>(7);
  check_all<Backend, 24, 1>(8);
  check_all<Backend, 1, 24>(8);
  check_all<Backend, 512, 32>(13);  // of which one gradient is wide enough to copy its left operand
}

TEST_CASE_TEMPLATE("the three products of a layer, for widths and rows that are drawn", Backend, Cpu<float>,
                   Cpu<double>, Cpu<float, Path::bfloat16>) {
  check_drawn<Backend>(std::make_integer_sequence<std::uint64_t, 9>());
}

TEST_CASE("floats by the fastest way are as near to exact products as multiply-adds") {
  constexpr Index K = 768, N = 64, rows = 40;
  const auto normal_numbers = [](Index count, std::uint64_t stream) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(normal(stream, i));
    return values;
  };
  const auto x = normal_numbers(rows * K, 1), weight = normal_numbers(K * N, 2);
  const auto error = [&](auto backend) {
    using Product = LinearProduct<decltype(backend), K, N, false, true>;
    std::vector<float> packed(Product::room), scratch(static_cast<std::size_t>(Product::scratch(rows))), y(rows * N);
    Product::prepare(weight.data(), packed.data(), nullptr);
    Product::forward(rows, x.data(), weight.data(), packed.data(), scratch.data(), y.data());
    double squares = 0;
    for (Index i = 0; i < rows * N; ++i) {
      double exact = 0;
      for (Index k = 0; k < K; ++k) {
        exact += static_cast<double>(x[static_cast<std::size_t>(i / N * K + k)]) *
                 static_cast<double>(weight[static_cast<std::size_t>(k * N + i % N)]);
      }
      squares += std::pow(y[static_cast<std::size_t>(i)] - exact, 2);
    }
    return std::sqrt(squares);
  };
  const double by_vectors = error(Cpu<float, Path::vectors>{});
  CHECK(error(Cpu<float>{}) <= by_vectors);
  CHECK(by_vectors > 0);
}

/// Adds the place of a vector's first number.
struct Placed {
  template <class V>
  Register<V> at(Register<V> sums, Index row, Index col) const {
    return sums + splat<V>(static_cast<Lane<Register<V>>>(1000 * row + col / 100));
  }
};

TEST_CASE_TEMPLATE("matrices that are not packed beforehand are finished like others, of few rows and of many", S, float,
                   double) {
  constexpr Index K = 24, N = 3 * lanes<S>;
  using Product = LinearProduct<Cpu<S>, K, N, false, false>;
  const std::vector<S> weight = numbers<S>(K * N, 2);
  for (const Index rows : {1, 2, 4, 5, 6}) {
    const std::vector<S> x = numbers<S>(rows * K, 1);
    std::vector<S> y(static_cast<std::size_t>(rows * N)), plain = y;
    std::vector<S> scratch(static_cast<std::size_t>(Product::scratch(rows)));
    Product::forward(rows, x.data(), weight.data(), nullptr, scratch.data(), plain.data());
    Product::forward(rows, x.data(), weight.data(), nullptr, scratch.data(), y.data(), Placed{});
    Index wrong = 0;
    for (Index i = 0; i < rows * N; ++i) {
      const auto k = static_cast<std::size_t>(i);
      wrong += y[k] != plain[k] + static_cast<S>(1000 * (i / N) + i % N / 100);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("no row adds nothing") { check_all<Cpu<float>, 32, 48>(0); }

TEST_SUITE_END();
