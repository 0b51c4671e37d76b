// SPDX-License-Identifier: MIT
#include <simplx/cpu/dual_product.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

using namespace simplx;
using namespace simplx::cpu;

namespace {

template <class S, int order = Eigen::RowMajor>
using Matrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, order>;

/// Numbers of every part of nested dual numbers; `moves`: whether tangents are other than zero.
template <class S>
S number(unsigned& seed, bool moves) {
  seed = (seed * 1103515245u + 12345u) & 0x7fffffffu;
  if constexpr (is_dual<S>) {
    using T = decltype(S::value);
    const T value = number<T>(seed, moves), tangent = number<T>(seed, moves);
    return {value, moves ? tangent : T(0)};
  } else {
    return static_cast<S>(seed % 2000) / 1000 - 1;
  }
}
template <class M>
M numbers(Eigen::Index rows, Eigen::Index cols, unsigned seed, bool moves) {
  return M::NullaryExpr(rows, cols, [&] { return number<typename M::Scalar>(seed, moves); });
}

template <class S>
double distance(const S& a, const S& b) {
  if constexpr (is_dual<S>) {
    return std::max(distance(a.value, b.value), distance(a.tangent, b.tangent));
  } else {
    return std::abs(static_cast<double>(a - b));
  }
}
template <class S>
double farthest(const Matrix<S>& a, const Matrix<S>& b) {
  double most = 0;
  for (Eigen::Index i = 0; i < a.size(); ++i) most = std::max(most, distance(a.data()[i], b.data()[i]));
  return most;
}

/// Against a product of the dual numbers themselves, one by one.
template <class S>
void check_products() {
  constexpr int turned = Eigen::ColMajor;
  for (const auto& sizes :
       {std::array{1, 1, 1}, {3, 50, 70}, {4, 4, 32}, {7, 9, 11}, {40, 33, 1}, {20, 64, 30}}) {
    const int rows = sizes[0], inner = sizes[1], cols = sizes[2];
    for (const bool a_moves : {false, true}) {
      for (const bool b_moves : {false, true}) {
        CAPTURE(rows);
        CAPTURE(a_moves);
        CAPTURE(b_moves);
        const auto a = numbers<Matrix<S>>(rows, inner, 1, a_moves), b = numbers<Matrix<S>>(inner, cols, 2, b_moves);
        const auto before = numbers<Matrix<S>>(rows, cols, 3, true);
        const Matrix<S> exact = before + Matrix<S>(a.lazyProduct(b));
        Matrix<S> found = before;
        add_product(found, a, b);
        CHECK(farthest(found, exact) < 1e-12);
        found = before;
        const Matrix<S, turned> a_turned = a, b_turned = b;
        add_product(found, a_turned, b_turned);
        CHECK(farthest(found, exact) < 1e-12);
        found = before;
        const Matrix<S> a_transposed = a.transpose(), b_transposed = b.transpose();
        add_product(found, a_transposed.transpose(), b_transposed.transpose());
        CHECK(farthest(found, exact) < 1e-12);
      }
    }
  }
}

}  // namespace

TEST_SUITE_BEGIN("cpu/dual_product");

TEST_CASE("products of dual numbers are those of their parts") {
  check_products<Dual<double>>();
  check_products<Dual<Dual<double>>>();
  check_products<double>();
}

TEST_CASE("a tangent that is zero itself may move") {
  using Twice = Dual<Dual<double>>;
  const Twice moving({0, 0}, {0, 1}), still({2, 0}, {0, 0});
  for (const bool first : {true, false}) {
    const Matrix<Twice> a = Matrix<Twice>::Constant(8, 8, first ? moving : still);
    const Matrix<Twice> b = Matrix<Twice>::Constant(8, 8, first ? still : moving);
    Matrix<Twice> y = Matrix<Twice>::Zero(8, 8);
    add_product(y, a, b);
    CHECK(y(7, 7).tangent.tangent == 16);
  }
}

TEST_CASE("what is not a number does not get lost where nothing moves") {
  Matrix<Dual<double>> a(8, 8), b(8, 8), y = Matrix<Dual<double>>::Zero(8, 8);
  a.setOnes(), b.setOnes();
  b(3, 3).tangent = std::numeric_limits<double>::quiet_NaN();
  add_product(y, a, b);
  CHECK(std::isnan(y(0, 3).tangent));
  CHECK(y(0, 2).tangent == 0);
  CHECK(y(0, 3).value == 8);
}

TEST_SUITE_END();
