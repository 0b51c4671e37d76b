// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/number.cuh
/// Number: what the rules of elementwise ops compute with in a kernel; One: a single number that a kernel is given.
///
/// A rule such as `g * (1 - y * y)` is written once, over any type that behaves like a number. On a GPU that type is
/// Number<float>, whose functions are those of CUDA's mathematics.

#include <simplx/cuda/port.cuh>

#include <cmath>

namespace simplx::inline SIMPLX_TARGET {

template <class S>
struct Number {
  S value;

  SIMPLX_HD constexpr Number() : value(0) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  SIMPLX_HD constexpr Number(T number) : value(static_cast<S>(number)) {}

  SIMPLX_HD Number& operator+=(Number b) { return value += b.value, *this; }

  friend SIMPLX_HD Number operator+(Number a, Number b) { return Number(a.value + b.value); }
  friend SIMPLX_HD Number operator-(Number a, Number b) { return Number(a.value - b.value); }
  friend SIMPLX_HD Number operator*(Number a, Number b) { return Number(a.value * b.value); }
  friend SIMPLX_HD Number operator/(Number a, Number b) { return Number(a.value / b.value); }
  friend SIMPLX_HD Number operator-(Number a) { return Number(-a.value); }
  friend SIMPLX_HD bool operator>(Number a, Number b) { return a.value > b.value; }
  friend SIMPLX_HD Number select(bool condition, Number yes, Number no) { return condition ? yes : no; }
  friend SIMPLX_HD Number max(Number a, Number b) { return a.value > b.value ? a : b; }  // b if either is NaN
  friend SIMPLX_HD Number min(Number a, Number b) { return a.value < b.value ? a : b; }

  friend SIMPLX_HD Number exp(Number x) { return Number(std::exp(x.value)); }
  friend SIMPLX_HD Number log(Number x) { return Number(std::log(x.value)); }
  friend SIMPLX_HD Number log1p(Number x) { return Number(std::log1p(x.value)); }
  friend SIMPLX_HD Number sin(Number x) { return Number(std::sin(x.value)); }
  friend SIMPLX_HD Number cos(Number x) { return Number(std::cos(x.value)); }
  friend SIMPLX_HD Number tanh(Number x) { return Number(std::tanh(x.value)); }
  friend SIMPLX_HD Number sigmoid(Number x) { return Number(S(1) / (S(1) + std::exp(-x.value))); }
  friend SIMPLX_HD Number erf(Number x) { return Number(std::erf(x.value)); }
  friend SIMPLX_HD Number sqrt(Number x) { return Number(std::sqrt(x.value)); }
  friend SIMPLX_HD Number abs(Number x) { return Number(std::abs(x.value)); }
  friend SIMPLX_HD Number pow(Number x, Number p) { return Number(std::pow(x.value, p.value)); }
};

/// One number that a kernel reads: where it is in the device's memory, or a literal of the model's code.
template <class S>
struct One {
  const S* place = nullptr;
  S literal = 0;

  constexpr One() = default;
  SIMPLX_HD constexpr One(const S* where) : place(where) {}
  SIMPLX_HD constexpr explicit One(double number) : literal(static_cast<S>(number)) {}
  __device__ S operator*() const { return place ? *place : literal; }
};

}  // namespace simplx
