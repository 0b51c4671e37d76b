// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/part.hpp
/// The end of a row that is no whole vector: computed as one more vector, of which only the first lanes are read from
/// memory and written to it. A loop over a row calls its body for V = Vec<S>, and once for V = Part<S, count>; the body
/// says load<V>, store<V> and splat<V>, and computes with what they give, a Register<V>.

#include <simplx/cpu/simd.hpp>

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace simplx::inline SIMPLX_TARGET {
namespace cpu {

/// The first `count` lanes of a vector, some but not all.
template <class S, int count>
struct Part {};

template <class V>
struct RegisterOf {
  static constexpr bool is_part = false;
  using type = V;
};
template <class S, int count>
struct RegisterOf<Part<S, count>> {
  static constexpr bool is_part = true;
  static constexpr int lanes_that_count = count;
  using type = Vec<S>;
  using Mask = Vec<std::conditional_t<sizeof(S) == 4, std::int32_t, std::int64_t>>;
  /// All bits of the lanes that count.
  static constexpr Mask mask = []<int... lane>(std::integer_sequence<int, lane...>) {
    return Mask{(lane < count ? -1 : 0)...};
  }(std::make_integer_sequence<int, lanes<S>>{});

  __attribute__((always_inline)) static type load(const S* place) {
#if defined(__AVX512F__)
    if constexpr (sizeof(S) == 4) return (type)_mm512_maskz_loadu_ps((1 << count) - 1, place);
    if constexpr (sizeof(S) == 8) return (type)_mm512_maskz_loadu_pd((1 << count) - 1, place);
#elif defined(__AVX2__)
    if constexpr (sizeof(S) == 4) return (type)_mm256_maskload_ps(place, (__m256i)mask);
    if constexpr (sizeof(S) == 8) return (type)_mm256_maskload_pd(place, (__m256i)mask);
#else
    type value{};
    std::memcpy(&value, place, count * sizeof(S));
    return value;
#endif
  }
};

/// Writes the first lanes of a vector. Half by half, since of a masked store a processor takes all lanes for written:
/// what reads behind it, as the next row does, would have to wait. (Some take ten times as long for those of AVX2.)
template <int count, class S, class V>
__attribute__((always_inline)) inline void store_first(S* place, V value) {
  constexpr int all = sizeof(V) / sizeof(S);
  if constexpr (count == all) {
    store(place, value);
  } else if constexpr (all <= 4) {
    for (int i = 0; i < count; ++i) place[i] = value[i];
  } else {
    const detail::Halves halves(value);
    constexpr int half = all / 2;
    store_first<count < half ? count : half>(place, halves.lower);
    if constexpr (count > half) store_first<count - half>(place + half, halves.upper);
  }
}

/// What a V is computed with: itself, or the whole vector of a part.
template <class V>
using Register = typename RegisterOf<V>::type;

template <class V>
concept PartOfVector = RegisterOf<V>::is_part;

}  // namespace cpu

/// The lanes of a part, and zeros.
template <cpu::PartOfVector V, class S>
__attribute__((always_inline)) inline Vec<S> load(const S* place) {
  return cpu::RegisterOf<V>::load(place);
}
template <cpu::PartOfVector V, class S>
__attribute__((always_inline)) inline void store(S* place, Vec<S> value) {
  cpu::store_first<cpu::RegisterOf<V>::lanes_that_count>(place, value);
}
template <cpu::PartOfVector V, class S>
__attribute__((always_inline)) inline cpu::Register<V> splat(S number) {
  return splat<cpu::Register<V>>(number);
}

namespace cpu {

/// The value in the lanes of V, `other` in those beyond a part.
template <class V>
__attribute__((always_inline)) inline Register<V> counted(Register<V> value, Register<V> other) {
  if constexpr (PartOfVector<V>) {
    return select(RegisterOf<V>::mask, value, other);
  } else {
    return value;
  }
}
/// The value in the lanes of V, zeros in those beyond a part, which then do not count in a sum.
template <class V>
__attribute__((always_inline)) inline Register<V> counted(Register<V> value) {
  return counted<V>(value, Register<V>{});
}

}  // namespace cpu
}  // namespace simplx
