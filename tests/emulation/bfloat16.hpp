// SPDX-License-Identifier: MIT
#pragma once

/// __nv_bfloat16 for tests: the upper half of a float, rounded to nearest, ties to even.

#include <bit>
#include <cstdint>

struct __nv_bfloat16 {
  __nv_bfloat16() = default;
  __nv_bfloat16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const bool is_nan = value != value;  // rounding could carry it over to infinity
    bits_ = static_cast<std::uint16_t>(is_nan ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16); }

 private:
  std::uint16_t bits_;
};

struct __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
inline __nv_bfloat16 __float2bfloat16(float value) { return value; }
inline float __bfloat162float(__nv_bfloat16 value) { return value; }
