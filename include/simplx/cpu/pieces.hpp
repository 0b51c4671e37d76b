// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/pieces.hpp
/// A float as the sum of three bfloat16, from whose products a matrix unit (amx.hpp) makes those of floats:
///
///     a = a0 + a1 + a2, 8 bits each
///     a b = a0 b0 + (a0 b1 + a1 b0) + (a0 b2 + a1 b1 + a2 b0)
///
/// up to an error of at most 2^-21 of a b, 2^-24 on average: the three smallest products are left out. Each of the six
/// takes a sixteenth of the time of a product of floats. The unit rounds a sum half as often as multiply-adds do, so
/// that its results are nearer to the exact ones. It takes numbers below 2^-126 for zeros and cannot split infinities:
/// where operands might lead there (Extent), floats are multiplied as they are. A sum that products are added to counts
/// as zero below 2^-126.

#include <simplx/cpu/bfloat16.hpp>

#include <algorithm>
#include <cstdint>

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Pieces of a float.
inline constexpr int float_pieces = 3;
/// Products of pieces that make one of floats.
inline constexpr int piece_products = 6;

/// Whether this is compiled for CPUs whose matrix unit multiplies floats in pieces.
#if defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__x86_64__) && defined(__linux__)
inline constexpr bool floats_in_pieces = true;
#else
inline constexpr bool floats_in_pieces = false;
#endif

/// a0, a1 and a2: each the upper half of what is left.
struct Pieces {
  Vec<float> of[float_pieces];

  __attribute__((always_inline)) explicit Pieces(Vec<float> rest) {
    using Bits = Vec<std::uint32_t>;
    SIMPLX_UNROLL
    for (int i = 0; i + 1 < float_pieces; ++i) {
      of[i] = (Vec<float>)((Bits)rest & 0xffff0000u);
      rest -= of[i];
    }
    of[float_pieces - 1] = rest;
  }
};

/// (first[i], second[i]) for each lane, of numbers that are bfloat16.
__attribute__((always_inline)) inline Vec<Twin> join_pairs(Vec<float> first, Vec<float> second) {
  using Bits = Vec<std::uint32_t>;
  return (Vec<Twin>)((Bits)first >> 16 | (Bits)second);
}

/// How small and how large numbers are.
struct Extent {
  int smallest;  ///< the exponent of the smallest one but zeros
  bool splits;   ///< none is infinite, no number, or without room for its pieces
};

/// Whether products of the pieces of such numbers, and their sums, are exact or rounded as those of floats are: all of
/// them are whole multiples of 2^-126.
constexpr bool fit(Extent a, Extent b) { return a.splits && b.splits && a.smallest + b.smallest >= 30 - 126; }

/// Finds the Extent of numbers that pass by.
class Measure {
 public:
  __attribute__((always_inline)) void operator()(Vec<float> x) {
    const Bits size = (Bits)x & 0x7fffffffu;
    largest_ = max(size, largest_);
    smallest_ = min(size - 1, smallest_);  // zero becomes the largest
  }
  Extent extent() const {
    std::uint32_t smallest = ~0u, largest = 0;
    for (int i = 0; i < lanes<float>; ++i) {
      smallest = std::min<std::uint32_t>(smallest, smallest_[i]);
      largest = std::max<std::uint32_t>(largest, largest_[i]);
    }
    constexpr std::uint32_t infinity = 0x7f800000, least = std::uint32_t(127 - 126 + 23) << 23;
    const bool none = largest == 0;
    return {none ? 0 : static_cast<int>((smallest + 1) >> 23) - 127,
            none || (largest < infinity && smallest + 1 >= least)};
  }

 private:
  using Bits = Vec<std::uint32_t>;
  Bits smallest_ = splat<Bits>(~0u), largest_{};  // an operator here, of vectors this wide, and nvcc 13 crashes
};

/// Of K numbers, whole vectors of them.
template <Index K>
Extent extent_of(const float* numbers) {
  Measure measure;
  for (Index k = 0; k < K; k += lanes<float>) measure(load<Vec<float>>(numbers + k));
  return measure.extent();
}

}  // namespace simplx::cpu
