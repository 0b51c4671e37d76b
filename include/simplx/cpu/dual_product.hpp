// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/dual_product.hpp
/// Matrix products by Eigen, of dual numbers as products of their parts:
///
///     (A + A' e) (B + B' e) = A B + (A' B + A B') e
///
/// Eigen multiplies plain numbers on vectors and dual ones one by one, at a twelfth of the speed. A part A' or B' that
/// is zero, as of data and of weights along which the function does not move, is left out.

#include <simplx/cpu/dual.hpp>

#include <Eigen/Core>

#include <algorithm>
#include <type_traits>

namespace simplx::inline SIMPLX_TARGET::cpu {

template <class S>
inline constexpr bool is_dual = false;
template <class T>
inline constexpr bool is_dual<Dual<T>> = true;

/// Whether a number is zero in all its parts, where == looks at values only.
template <class S>
constexpr bool is_zero(const S& x) {
  if constexpr (is_dual<S>) {
    return is_zero(x.value) && is_zero(x.tangent);
  } else {
    return x == S(0);
  }
}

/// The order of a matrix in memory, so that its parts are read off it in that order.
template <class Matrix>
inline constexpr int order_of = std::remove_cvref_t<Matrix>::IsRowMajor ? Eigen::RowMajor : Eigen::ColMajor;

/// Whether a product has so much work that taking its numbers apart, and together again, is little beside it.
inline bool is_worth_parts(Eigen::Index rows, Eigen::Index inner, Eigen::Index cols) {
  return std::min({rows, inner, cols}) >= 4 && rows * inner * cols >= 512;
}

/// target += a b
///
/// by_parts  false where it is known that the matrices are too narrow for that
/// Shapes  a (rows, inner), b (inner, cols), target (rows, cols)
/// Cost    of dual numbers two products of plain ones, or three, and memory for the parts of all matrices
template <bool by_parts = true, class Target, class A, class B>
void add_product(Target&& target, const A& a, const B& b) {
  using S = typename std::remove_cvref_t<Target>::Scalar;
  if constexpr (is_dual<S> && by_parts) {
    using T = decltype(S::value);
    if (!is_worth_parts(a.rows(), a.cols(), b.cols())) return void(target.noalias() += a * b);
    using PartOfA = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, order_of<A>>;
    using PartOfB = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, order_of<B>>;
    using Part = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const auto value = [](const S& x) { return x.value; };
    const auto tangent = [](const S& x) { return x.tangent; };
    const auto moves = [](const auto& x) {
      return x.unaryExpr([](const S& number) { return !is_zero(number.tangent); }).any();
    };
    const PartOfA a_value = a.unaryExpr(value);
    const PartOfB b_value = b.unaryExpr(value);
    Part values = Part::Zero(target.rows(), target.cols()), tangents = values;
    add_product(values, a_value, b_value);
    if (moves(a)) add_product(tangents, PartOfA(a.unaryExpr(tangent)), b_value);
    if (moves(b)) add_product(tangents, a_value, PartOfB(b.unaryExpr(tangent)));
    target += values.binaryExpr(tangents, [](const T& v, const T& t) { return S(v, t); });
  } else {
    target.noalias() += a * b;
  }
}

}  // namespace simplx::cpu
