// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/dual.hpp
/// Dual numbers: a value and its derivative along one direction, x + x' e with e^2 = 0.
///
///     f(x + x' e) = f(x) + f'(x) x' e
///
/// Any kernel run on them is its own forward mode: a forward pass gives a Jacobian-vector product, a forward and a
/// backward pass give a Hessian-vector product, and Dual<Dual<double>> the next order. Comparisons look at values.

#include <simplx/cpu/math.hpp>

#include <Eigen/Core>

#include <concepts>

namespace simplx::inline SIMPLX_TARGET {

template <class T>
struct Dual {
  T value = T(0), tangent = T(0);

  constexpr Dual() = default;
  constexpr Dual(const T& v, const T& t) : value(v), tangent(t) {}
  template <class Number>
    requires std::is_arithmetic_v<Number> || std::same_as<Number, T>
  constexpr Dual(const Number& number) : value(static_cast<T>(number)) {}
  template <class Number>
    requires std::is_arithmetic_v<Number>
  constexpr explicit operator Number() const { return static_cast<Number>(value); }

  friend constexpr Dual operator+(const Dual& a, const Dual& b) { return {a.value + b.value, a.tangent + b.tangent}; }
  friend constexpr Dual operator-(const Dual& a, const Dual& b) { return {a.value - b.value, a.tangent - b.tangent}; }
  friend constexpr Dual operator*(const Dual& a, const Dual& b) {
    return {a.value * b.value, a.tangent * b.value + a.value * b.tangent};
  }
  friend constexpr Dual operator/(const Dual& a, const Dual& b) {
    const T quotient = a.value / b.value;
    return {quotient, (a.tangent - quotient * b.tangent) / b.value};
  }
  friend constexpr Dual operator-(const Dual& a) { return {-a.value, -a.tangent}; }
  friend constexpr Dual& operator+=(Dual& a, const Dual& b) { return a = a + b; }
  friend constexpr Dual& operator-=(Dual& a, const Dual& b) { return a = a - b; }
  friend constexpr Dual& operator*=(Dual& a, const Dual& b) { return a = a * b; }
  friend constexpr Dual& operator/=(Dual& a, const Dual& b) { return a = a / b; }
  friend constexpr bool operator==(const Dual& a, const Dual& b) { return a.value == b.value; }
  friend constexpr auto operator<=>(const Dual& a, const Dual& b) { return a.value <=> b.value; }

  friend Dual exp(const Dual& x) {
    const T y = exp(x.value);
    return {y, y * x.tangent};
  }
  friend Dual log(const Dual& x) { return {log(x.value), x.tangent / x.value}; }
  friend Dual log1p(const Dual& x) { return {log1p(x.value), x.tangent / (T(1) + x.value)}; }
  friend Dual sin(const Dual& x) { return {sin(x.value), cos(x.value) * x.tangent}; }
  friend Dual cos(const Dual& x) { return {cos(x.value), -sin(x.value) * x.tangent}; }
  friend Dual tanh(const Dual& x) {
    const T y = tanh(x.value);
    return {y, (T(1) - y * y) * x.tangent};
  }
  friend Dual sigmoid(const Dual& x) {
    const T y = sigmoid(x.value);
    return {y, y * (T(1) - y) * x.tangent};
  }
  friend Dual erf(const Dual& x) {
    constexpr double slope = 1.1283791670955126;  // 2 / sqrt(pi)
    return {erf(x.value), T(slope) * exp(-x.value * x.value) * x.tangent};
  }
  friend Dual sqrt(const Dual& x) {
    const T y = sqrt(x.value);
    if (y == T(0) && x.tangent == T(0)) return {y, T(0)};  // the norm of a row of zeros that stays one
    return {y, x.tangent / (T(2) * y)};
  }
  friend Dual pow(const Dual& x, const Dual& p) {
    const T y = pow(x.value, p.value);
    const bool base_stays = p.value == T(0) || (x.value == T(0) && x.tangent == T(0));
    const T by_base = base_stays ? T(0) : p.value * pow(x.value, p.value - T(1)) * x.tangent;
    if (p.tangent == T(0) || !(x.value > T(0))) return {y, by_base};  // 0^p does not depend on p > 0
    return {y, by_base + y * log(x.value) * p.tangent};
  }
  // Kinks as in ops/functions.hpp: 0 for abs, one half each for max and min of equal numbers.
  friend Dual abs(const Dual& x) { return x.value < T(0) ? -x : x.value > T(0) ? x : Dual(abs(x.value)); }
  friend Dual max(const Dual& a, const Dual& b) {
    return a.value == b.value ? Dual(a.value, (a.tangent + b.tangent) / T(2)) : a.value > b.value ? a : b;
  }
  friend Dual min(const Dual& a, const Dual& b) {
    return a.value == b.value ? Dual(a.value, (a.tangent + b.tangent) / T(2)) : a.value < b.value ? a : b;
  }
  friend const Dual& sum(const Dual& x) { return x; }  // as of a vector of one lane
  friend const Dual& largest(const Dual& x) { return x; }
};

}  // namespace simplx

namespace Eigen {
template <class T>
struct NumTraits<simplx::Dual<T>> : NumTraits<T> {
  using Real = simplx::Dual<T>;
  using NonInteger = simplx::Dual<T>;
  using Nested = simplx::Dual<T>;
  using Literal = simplx::Dual<T>;
  enum {
    IsComplex = 0,
    IsInteger = 0,
    IsSigned = 1,
    RequireInitialization = 1,
    ReadCost = 2,
    AddCost = 2,
    MulCost = 4
  };
};
}  // namespace Eigen
