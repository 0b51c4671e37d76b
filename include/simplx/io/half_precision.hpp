// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/half_precision.hpp
/// Float16 and Bfloat16: numbers of two bytes as files keep them. Nothing is computed in them.
///
///     Float16   sign, 5 bits of exponent, 10 of mantissa    (-1)^s 2^(e - 15) (1 + m / 2^10): IEEE 754 binary16
///     Bfloat16  sign, 8 bits of exponent, 7 of mantissa     (-1)^s 2^(e - 127) (1 + m / 2^7): half of a float
///
/// Every one of them is a float exactly. The way back rounds to nearest, ties to even, from double: by way of float
/// it would round twice. NaN stays NaN, with its sign and the upper bits of its payload; too large becomes infinite.

#include <simplx/core/target.hpp>

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdint>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// The nearest number of a format of 16 bits.
template <int exponent_bits, int mantissa_bits>
constexpr std::uint16_t nearest_bits(double value) {
  static_assert(1 + exponent_bits + mantissa_bits == 16);
  constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  constexpr std::uint64_t infinity = ((std::uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t sign = bits >> 63 << 15, magnitude = bits << 1 >> 1, mantissa = bits << 12 >> 12;
  const int exponent = static_cast<int>(magnitude >> 52) - 1023;
  if (exponent == 1024 && mantissa != 0) {
    constexpr std::uint64_t quiet = std::uint64_t{1} << (mantissa_bits - 1);
    return static_cast<std::uint16_t>(sign | infinity | quiet | mantissa >> (52 - mantissa_bits));
  }
  // Below the smallest normal number the last bit keeps its weight, so more of the mantissa goes.
  const int shift = 52 - mantissa_bits + std::max(0, 1 - bias - exponent);
  if (shift > 53) return static_cast<std::uint16_t>(sign);  // less than half of the smallest number
  const std::uint64_t significand = mantissa | std::uint64_t{1} << 52;
  const std::uint64_t odd = significand >> shift & 1, below_half = (std::uint64_t{1} << (shift - 1)) - 1;
  // The leading one of a normal number, and a carry out of its mantissa, count the exponent up.
  const std::uint64_t scale = static_cast<std::uint64_t>(std::max(0, exponent + bias - 1)) << mantissa_bits;
  return static_cast<std::uint16_t>(sign | std::min(scale + ((significand + below_half + odd) >> shift), infinity));
}

}  // namespace detail

/// IEEE 754 binary16, the dtype F16 of safetensors.
struct Float16 {
  std::uint16_t bits = 0;

  constexpr Float16() = default;
  explicit constexpr Float16(double value) : bits(detail::nearest_bits<5, 10>(value)) {}
  constexpr float value() const {
    const std::uint32_t word = bits, sign = word >> 15 << 31, exponent = word >> 10 & 31, mantissa = word & 1023;
    if (exponent == 0) {  // zero and subnormal numbers: multiples of 2^-24
      const float value = static_cast<float>(mantissa) * 0x1p-24f;
      return sign ? -value : value;
    }
    const std::uint32_t widened = exponent == 31 ? 255 : exponent + 127 - 15;
    return std::bit_cast<float>(sign | widened << 23 | mantissa << 13);
  }
  template <std::floating_point T>
  explicit constexpr operator T() const {
    return static_cast<T>(value());
  }
};

/// The upper half of a float, the dtype BF16 of safetensors.
struct Bfloat16 {
  std::uint16_t bits = 0;

  constexpr Bfloat16() = default;
  /// Of a float, which has this exponent, only the lower half is rounded away: the same bits sooner.
  template <class T>
    requires std::floating_point<T> || std::integral<T>
  explicit constexpr Bfloat16(T value) {
    if constexpr (std::same_as<T, float>) {
      const auto word = std::bit_cast<std::uint32_t>(value);
      const bool is_number = word << 1 <= 0xff000000u;
      bits = static_cast<std::uint16_t>(is_number ? (word + 0x7fffu + (word >> 16 & 1)) >> 16 : word >> 16 | 0x40u);
    } else {
      bits = detail::nearest_bits<8, 7>(static_cast<double>(value));
    }
  }
  constexpr float value() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  template <std::floating_point T>
  explicit constexpr operator T() const {
    return static_cast<T>(value());
  }
};

}  // namespace simplx
