// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/simd.hpp
/// Vectors of the build's instruction set, by the portable vector extensions of g++ and clang.
///
/// Everything here also takes a plain float or double as a vector of one lane, so that an elementwise rule
/// written once runs over vectors and over single numbers.
///
/// What the library needs of the compiler: IEEE arithmetic. With -ffast-math (or -Ofast) infinities and NaNs
/// are assumed away, masks and stopping on a broken loss no longer work, and training goes wrong silently.

#include <simplx/core/shape.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "simplx: compile without -ffast-math, -Ofast and -ffinite-math-only; use -O3 -march=native instead"
#endif

namespace simplx::inline SIMPLX_TARGET {

#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64;
#elif defined(__AVX2__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
#endif

/// Elements of a vector; numbers that are not built in (dual.hpp) go one by one.
template <class S>
inline constexpr int lanes = std::is_arithmetic_v<S> ? vector_bytes / static_cast<int>(sizeof(S)) : 1;

namespace detail {
/// A vector of so many bytes. (g++ drops vector_size where it depends on a function template's parameters.)
template <class S, std::size_t bytes>
struct VectorOf {
  typedef S type __attribute__((vector_size(bytes)));
};

template <class S>
struct VecOf {
  using type = S;
};
template <class S>
  requires std::is_arithmetic_v<S>
struct VecOf<S> : VectorOf<S, vector_bytes> {};
}  // namespace detail

template <class S>
using Vec = typename detail::VecOf<S>::type;

namespace detail {
template <class V, bool single = std::is_arithmetic_v<V>>
struct LaneOf {
  using type = V;
};
template <class V>
  requires requires(V& v) { v[0]; }
struct LaneOf<V, false> {
  using type = std::remove_cvref_t<decltype(std::declval<V&>()[0])>;
};
}  // namespace detail

/// The element type of a vector, or the type itself.
template <class V>
using Lane = typename detail::LaneOf<V>::type;

/// Reads sizeof(V) bytes, aligned or not.
template <class V, class S>
__attribute__((always_inline)) inline V load(const S* place) {
  V value;
  std::memcpy(&value, place, sizeof value);
  return value;
}

template <class V, class S>
__attribute__((always_inline)) inline void store(S* place, V value) {
  std::memcpy(place, &value, sizeof value);
}

/// The first lanes of a vector, a number known at run time, and zeros.
template <class S, class Count>
__attribute__((always_inline)) inline Vec<S> load_lanes(const S* place, Count count) {
  Vec<S> value{};
  std::memcpy(&value, place, static_cast<std::size_t>(count) * sizeof(S));
  return value;
}
template <class S, class V, class Count>
__attribute__((always_inline)) inline void store_lanes(S* place, const V& value, Count count) {
  std::memcpy(place, &value, static_cast<std::size_t>(count) * sizeof(S));
}

/// The same number in every lane.
template <class V, class S>
__attribute__((always_inline)) inline V splat(S number) {
  if constexpr (std::is_same_v<V, Lane<V>>) {
    return static_cast<V>(number);
  } else {
    return static_cast<Lane<V>>(number) - V{};  // + would turn -0 into 0 and cost an addition
  }
}

/// A constant of an op's rule, as a number of the rule's type: a float, a vector, a dual number, a formula.
template <class V>
SIMPLX_HD __attribute__((always_inline)) constexpr V literal(double number) {
  if constexpr (requires { V{}[0]; }) {
    return static_cast<Lane<V>>(number) - V{};
  } else {
    return static_cast<V>(number);
  }
}

/// Lane by lane, `yes` where the condition holds.
template <class Condition, class V>
  requires requires(Condition c, V v) { c ? v : v; }
__attribute__((always_inline)) inline V select(Condition condition, V yes, V no) {
  return condition ? yes : no;
}

namespace detail {
/// Makes g++ forget where a vector is from: with a constant it compares and masks instead of taking the maximum, and
/// what lies in memory it reads anew for each use.
template <class V>
__attribute__((always_inline)) inline void in_register([[maybe_unused]] V& v) {
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__CUDACC__)
  if constexpr (!std::is_arithmetic_v<V>) asm("" : "+v"(v));
#endif
}
}  // namespace detail

/// The larger one, lane by lane, in one instruction; `b` if either is NaN.
template <class V>
  requires std::is_arithmetic_v<Lane<V>>
__attribute__((always_inline)) inline V max(V a, V b) {
  detail::in_register(a), detail::in_register(b);
  return a > b ? a : b;
}

/// The smaller one, lane by lane, in one instruction; `b` if either is NaN.
template <class V>
  requires std::is_arithmetic_v<Lane<V>>
__attribute__((always_inline)) inline V min(V a, V b) {
  detail::in_register(a), detail::in_register(b);
  return a < b ? a : b;
}

namespace detail {
/// The lower and the upper lanes of a vector.
template <class V>
struct Halves {
  using Half = typename VectorOf<Lane<V>, sizeof(V) / 2>::type;
  Half lower, upper;

  __attribute__((always_inline)) explicit Halves(V v) {
#if defined(__has_builtin) && !defined(__CUDACC__)
#if __has_builtin(__builtin_shufflevector)  // g++ 12 would go through memory
    if constexpr (sizeof(V) == 64) {
      typedef double Doubles __attribute__((vector_size(64)));
      lower = (Half)__builtin_shufflevector((Doubles)v, (Doubles)v, 0, 1, 2, 3);
      upper = (Half)__builtin_shufflevector((Doubles)v, (Doubles)v, 4, 5, 6, 7);
      return;
    }
#endif
#endif
    std::memcpy(static_cast<void*>(this), &v, sizeof v);
  }
};

/// All lanes made one number by f, one half with the other. (Of a loop over an array g++ makes one at run time.)
template <class V, class F>
__attribute__((always_inline)) inline Lane<V> folded(V v, F f) {
  using S = Lane<V>;
  if constexpr (std::is_same_v<V, S>) {
    return v;
  } else if constexpr (sizeof(V) > 16) {
    const Halves halves(v);
    return folded(f(halves.lower, halves.upper), f);
  } else if constexpr (sizeof(V) == 4 * sizeof(S)) {
    return f(f(S(v[0]), S(v[2])), f(S(v[1]), S(v[3])));
  } else {
    return f(S(v[0]), S(v[1]));
  }
}
}  // namespace detail

/// The sum of all lanes, pairwise.
template <class V>
  requires std::is_arithmetic_v<Lane<V>>
__attribute__((always_inline)) inline Lane<V> sum(V v) {
  return detail::folded(v, []<class H>(H a, H b) __attribute__((always_inline)) -> H { return a + b; });
}

/// The largest lane.
template <class V>
  requires std::is_arithmetic_v<Lane<V>>
__attribute__((always_inline)) inline Lane<V> largest(V v) {
  return detail::folded(v, []<class H>(H a, H b) __attribute__((always_inline)) -> H { return a > b ? a : b; });
}

namespace cpu {

/// 0, 1, 2, ... over the lanes.
template <class V>
__attribute__((always_inline)) inline V lane_numbers() {
  V numbers{};
  for (int i = 0; i < lanes<Lane<V>>; ++i) numbers[i] = static_cast<Lane<V>>(i);
  return numbers;
}

/// Writes a vector past the caches, which keep what they hold and do not read first what it is written over; `place` is
/// aligned to the vector. Needs end_stream before another thread reads it. Without such an instruction, as store.
template <class V, class S>
__attribute__((always_inline)) inline void stream(S* place, V value) {
#if defined(__clang__) && !defined(__CUDACC__)
  __builtin_nontemporal_store(value, reinterpret_cast<V*>(place));
#elif defined(__SSE2__) && !defined(__CUDACC__)
  using Floats = Vec<float>;
  float* const floats = reinterpret_cast<float*>(place);
#if defined(__AVX512F__)
  __builtin_ia32_movntps512(floats, std::bit_cast<Floats>(value));
#elif defined(__AVX2__)
  __builtin_ia32_movntps256(floats, std::bit_cast<Floats>(value));
#else
  __builtin_ia32_movntps(floats, std::bit_cast<Floats>(value));
#endif
#else
  store(place, value);
#endif
}
inline void end_stream() {
#if defined(__SSE2__) && !defined(__CUDACC__)
  __builtin_ia32_sfence();
#endif
}

}  // namespace cpu
}  // namespace simplx
