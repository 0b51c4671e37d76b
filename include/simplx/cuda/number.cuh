// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/number.cuh
/// Number: what the rules of elementwise ops compute with in a kernel; Numbers: several of them beside each other, as
/// one request loads or stores them; One: a single number that a kernel is given.
///
/// A rule such as `g * (1 - y * y)` is written once, over any type that behaves like a number. On a GPU that type is
/// Number<float>, whose functions are those of CUDA's mathematics.

#include <simplx/cuda/port.cuh>

#include <cmath>

namespace simplx::inline SIMPLX_TARGET::gpu {

template <class S>
struct Number {
  S value;

  SIMPLX_HD constexpr Number() : value(0) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  SIMPLX_HD constexpr Number(T number) : value(static_cast<S>(number)) {}

  SIMPLX_HD Number& operator+=(Number b) { return value += b.value, *this; }
  SIMPLX_HD Number& operator-=(Number b) { return value -= b.value, *this; }
  SIMPLX_HD Number& operator*=(Number b) { return value *= b.value, *this; }
  SIMPLX_HD Number& operator/=(Number b) { return value /= b.value, *this; }

  friend SIMPLX_HD Number operator+(Number a, Number b) { return Number(a.value + b.value); }
  friend SIMPLX_HD Number operator-(Number a, Number b) { return Number(a.value - b.value); }
  friend SIMPLX_HD Number operator*(Number a, Number b) { return Number(a.value * b.value); }
  friend SIMPLX_HD Number operator/(Number a, Number b) { return Number(a.value / b.value); }
  friend SIMPLX_HD Number operator-(Number a) { return Number(-a.value); }
  friend SIMPLX_HD bool operator>(Number a, Number b) { return a.value > b.value; }
  friend SIMPLX_HD bool operator<(Number a, Number b) { return a.value < b.value; }
  friend SIMPLX_HD bool operator>=(Number a, Number b) { return a.value >= b.value; }
  friend SIMPLX_HD bool operator<=(Number a, Number b) { return a.value <= b.value; }
  friend SIMPLX_HD Number select(bool condition, Number yes, Number no) { return condition ? yes : no; }
  // NaN if either is.
  friend SIMPLX_HD Number max(Number a, Number b) { return a.value > b.value || a.value != a.value ? a : b; }
  friend SIMPLX_HD Number min(Number a, Number b) { return a.value < b.value || a.value != a.value ? a : b; }

  friend SIMPLX_HD Number exp(Number x) { return Number(std::exp(x.value)); }
  friend SIMPLX_HD Number log(Number x) { return Number(std::log(x.value)); }
  friend SIMPLX_HD Number log1p(Number x) { return Number(std::log1p(x.value)); }
  friend SIMPLX_HD Number sin(Number x) { return Number(std::sin(x.value)); }
  friend SIMPLX_HD Number cos(Number x) { return Number(std::cos(x.value)); }
  friend SIMPLX_HD Number tanh(Number x) { return Number(std::tanh(x.value)); }
  friend SIMPLX_HD Number sigmoid(Number x) { return Number(S(1) / (S(1) + std::exp(-x.value))); }
  friend SIMPLX_HD Number erf(Number x) { return Number(std::erf(x.value)); }
  friend SIMPLX_HD Number sqrt(Number x) { return Number(std::sqrt(x.value)); }
  friend SIMPLX_HD Number rsqrt(Number x) { return Number(S(1) / std::sqrt(x.value)); }
  friend SIMPLX_HD Number abs(Number x) { return Number(std::abs(x.value)); }
  /// NaN if either is, also where std::pow says 1.
  friend SIMPLX_HD Number pow(Number x, Number p) {
    const bool both = x.value == x.value && p.value == p.value;
    return both ? Number(std::pow(x.value, p.value)) : x + p;
  }
};

/// So many numbers, each by itself, and what is true of each of them.
template <int count>
struct Conditions {
  bool of[count];
};
template <class S, int count>
struct Numbers {
  Number<S> of[count];

  constexpr Numbers() = default;
  /// The same everywhere.
  template <class T>
    requires std::is_arithmetic_v<T>
  SIMPLX_HD constexpr Numbers(T number) {
    for (int k = 0; k < count; ++k) of[k] = Number<S>(number);
  }
  /// f(x_k ...) for each k.
  template <class F, class... X>
  SIMPLX_HD static Numbers each(const F& f, const X&... x) {
    Numbers result;
    SIMPLX_UNROLL
    for (int k = 0; k < count; ++k) result.of[k] = f(x.of[k]...);
    return result;
  }
  /// Of all of them.
  SIMPLX_HD S sum() const {
    Number<S> total = of[0];
    SIMPLX_UNROLL
    for (int k = 1; k < count; ++k) total += of[k];
    return total.value;
  }

  SIMPLX_HD Numbers& operator+=(const Numbers& b) { return *this = *this + b; }
  SIMPLX_HD Numbers& operator-=(const Numbers& b) { return *this = *this - b; }
  SIMPLX_HD Numbers& operator*=(const Numbers& b) { return *this = *this * b; }
  SIMPLX_HD Numbers& operator/=(const Numbers& b) { return *this = *this / b; }

  friend SIMPLX_HD Numbers operator+(const Numbers& a, const Numbers& b) {
    return each([](auto x, auto y) { return x + y; }, a, b);
  }
  friend SIMPLX_HD Numbers operator-(const Numbers& a, const Numbers& b) {
    return each([](auto x, auto y) { return x - y; }, a, b);
  }
  friend SIMPLX_HD Numbers operator*(const Numbers& a, const Numbers& b) {
    return each([](auto x, auto y) { return x * y; }, a, b);
  }
  friend SIMPLX_HD Numbers operator/(const Numbers& a, const Numbers& b) {
    return each([](auto x, auto y) { return x / y; }, a, b);
  }
  friend SIMPLX_HD Numbers operator-(const Numbers& a) {
    return each([](auto x) { return -x; }, a);
  }
  friend SIMPLX_HD Conditions<count> operator>(const Numbers& a, const Numbers& b) {
    Conditions<count> result;
    SIMPLX_UNROLL
    for (int k = 0; k < count; ++k) result.of[k] = a.of[k] > b.of[k];
    return result;
  }
  friend SIMPLX_HD Conditions<count> operator<(const Numbers& a, const Numbers& b) { return b > a; }
  friend SIMPLX_HD Conditions<count> operator>=(const Numbers& a, const Numbers& b) {
    Conditions<count> result;
    SIMPLX_UNROLL
    for (int k = 0; k < count; ++k) result.of[k] = a.of[k] >= b.of[k];
    return result;
  }
  friend SIMPLX_HD Conditions<count> operator<=(const Numbers& a, const Numbers& b) { return b >= a; }
  friend SIMPLX_HD Numbers select(const Conditions<count>& condition, const Numbers& yes, const Numbers& no) {
    return each([](bool is, auto x, auto y) { return is ? x : y; }, condition, yes, no);
  }
  friend SIMPLX_HD Numbers max(const Numbers& a, const Numbers& b) {
    return each([](auto x, auto y) { return max(x, y); }, a, b);
  }
  friend SIMPLX_HD Numbers min(const Numbers& a, const Numbers& b) {
    return each([](auto x, auto y) { return min(x, y); }, a, b);
  }

  friend SIMPLX_HD Numbers exp(const Numbers& x) {
    return each([](auto a) { return exp(a); }, x);
  }
  friend SIMPLX_HD Numbers log(const Numbers& x) {
    return each([](auto a) { return log(a); }, x);
  }
  friend SIMPLX_HD Numbers log1p(const Numbers& x) {
    return each([](auto a) { return log1p(a); }, x);
  }
  friend SIMPLX_HD Numbers sin(const Numbers& x) {
    return each([](auto a) { return sin(a); }, x);
  }
  friend SIMPLX_HD Numbers cos(const Numbers& x) {
    return each([](auto a) { return cos(a); }, x);
  }
  friend SIMPLX_HD Numbers tanh(const Numbers& x) {
    return each([](auto a) { return tanh(a); }, x);
  }
  friend SIMPLX_HD Numbers sigmoid(const Numbers& x) {
    return each([](auto a) { return sigmoid(a); }, x);
  }
  friend SIMPLX_HD Numbers erf(const Numbers& x) {
    return each([](auto a) { return erf(a); }, x);
  }
  friend SIMPLX_HD Numbers sqrt(const Numbers& x) {
    return each([](auto a) { return sqrt(a); }, x);
  }
  friend SIMPLX_HD Numbers rsqrt(const Numbers& x) {
    return each([](auto a) { return rsqrt(a); }, x);
  }
  friend SIMPLX_HD Numbers abs(const Numbers& x) {
    return each([](auto a) { return abs(a); }, x);
  }
  friend SIMPLX_HD Numbers pow(const Numbers& x, const Numbers& p) {
    return each([](auto a, auto b) { return pow(a, b); }, x, p);
  }
};

/// So many numbers from a place on, as neighbours() moves them: float of bfloat16, else S as it is.
template <int count, class T>
__device__ __forceinline__ auto load_numbers(const T* place) {
  const auto part = *neighbours<count>(place);
  Numbers<decltype(wide(T())), count> numbers;
  SIMPLX_UNROLL
  for (int k = 0; k < count; ++k) numbers.of[k].value = wide(part.of[k]);
  return numbers;
}
/// They are stored from a place on, rounded where T is bfloat16.
template <class T, class S, int count>
__device__ __forceinline__ void store_numbers(T* place, const Numbers<S, count>& numbers) {
  Neighbours<T, count> part;
  SIMPLX_UNROLL
  for (int k = 0; k < count; ++k) store_as(part.of[k], numbers.of[k].value);
  *neighbours<count>(place) = part;
}
/// What a gradient's mode says; what is stored as bfloat16 is never added to.
template <Write mode, class T, class S, int count>
__device__ __forceinline__ void write_numbers(T* place, Numbers<S, count> numbers) {
  static_assert(mode != Write::accumulate || std::is_same_v<T, S>, "a sum of gradients is never narrow");
  if constexpr (mode == Write::accumulate) numbers += load_numbers<count>(place);
  if constexpr (mode != Write::skip) store_numbers(place, numbers);
}

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

}  // namespace simplx::gpu
