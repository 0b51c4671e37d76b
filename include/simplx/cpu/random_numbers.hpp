// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/random_numbers.hpp
/// The laws of random numbers (core/random.hpp), as many at a time as a vector has lanes. Normal numbers are of the
/// functions of math.hpp, hence the same bits for vectors of any width, but others without FMA than with it.
///
///     uniform   u_i = (bits(key, i) / 2^12 + 1/2) / 2^52                                         in (0, 1)
///     normal    z_i = sqrt(-2 log u_2i) cos(2 pi u_2i+1)                                         (Box & Muller)

#include <simplx/core/random.hpp>
#include <simplx/cpu/logarithm.hpp>
#include <simplx/cpu/power.hpp>
#include <simplx/cpu/trigonometry.hpp>

#include <algorithm>
#include <cstring>

namespace simplx::inline SIMPLX_TARGET {
namespace cpu {

/// A counter in each lane.
using Counters = detail::Bits<Vec<double>>;

/// bits() of each counter: scramble in lanes, of which a GPU's compiler knows none.
__attribute__((always_inline)) inline Counters bits_of_lanes(std::uint64_t key, Counters counter) {
  Counters z = key + (counter + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

/// Numbers first, first + step, first + 2 step, ... of a key.
__attribute__((always_inline)) inline Vec<double> uniform_lanes(std::uint64_t key, std::uint64_t first,
                                                               std::uint64_t step) {
  Counters counter{};
  for (int i = 0; i < lanes<double>; ++i) counter[i] = first + static_cast<std::uint64_t>(i) * step;
  const Counters random = bits_of_lanes(key, counter);
  // The lowest bits of a double in [1, 2) are those of its fraction; what is left of the sum is exact.
  return (detail::value_of<Vec<double>>((random >> 12) | detail::bits_of(1.0)) - 1) + 0x1p-53;
}

/// Numbers first, first + 1, ... of a key.
__attribute__((always_inline)) inline Vec<double> normal_lanes(std::uint64_t key, std::uint64_t first) {
  constexpr double two_pi = 6.283185307179586;
  const Vec<double> radius = sqrt(-2 * log(uniform_lanes(key, 2 * first, 2)));
  return radius * cos(two_pi * uniform_lanes(key, 2 * first + 1, 2));
}

/// values[i] = lane i - k of draw(k) for a k, in one vector after the other.
template <class Draw>
void fill_by_lanes(Index count, double* values, const Draw& draw) {
  for (Index i = 0; i < count; i += lanes<double>) {
    const Vec<double> numbers = draw(static_cast<std::uint64_t>(i));
    const auto left = static_cast<std::size_t>(std::min<Index>(count - i, lanes<double>));
    std::memcpy(values + i, &numbers, left * sizeof(double));
  }
}

/// values[i] = uniform(key, first + i)
inline void fill_uniform(std::uint64_t key, std::uint64_t first, Index count, double* values) {
  fill_by_lanes(count, values, [&](std::uint64_t i) { return uniform_lanes(key, first + i, 1); });
}

/// values[i] = normal(key, first + i)
inline void fill_normal(std::uint64_t key, std::uint64_t first, Index count, double* values) {
  fill_by_lanes(count, values, [&](std::uint64_t i) { return normal_lanes(key, first + i); });
}

}  // namespace cpu

/// Standard normal.
inline double normal(std::uint64_t key, std::uint64_t counter) { return cpu::normal_lanes(key, counter)[0]; }

}  // namespace simplx
