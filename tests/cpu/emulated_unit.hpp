// SPDX-License-Identifier: MIT
#pragma once

/// A matrix unit for every CPU: what Amx::multiply computes, number by number.

#include <simplx/cpu/bfloat16.hpp>

#include <bit>
#include <cstdint>

namespace test {

using simplx::Index, simplx::Pair, simplx::Write;

inline float first_of(Pair pair) { return std::bit_cast<float>(static_cast<std::uint32_t>(pair) << 16); }
inline float second_of(Pair pair) { return std::bit_cast<float>(static_cast<std::uint32_t>(pair) & 0xffff0000u); }

struct EmulatedUnit {
  template <int rows, int cols, Write mode>
  void multiply(Index steps, const Pair* left, const Pair* right, Index right_row, float* c, Index c_row) const {
    for (Index i = 0; i < 16 * rows; ++i) {
      for (Index j = 0; j < 16 * cols; ++j) {
        float sum = mode == Write::accumulate ? c[i * c_row + j] : 0;
        for (Index pair = 0; pair < 16 * steps; ++pair) {
          const Pair a = left[((i / 16 * steps + pair / 16) * 16 + i % 16) * 16 + pair % 16];
          const Pair b = right[pair * right_row + j];
          sum += first_of(a) * first_of(b) + second_of(a) * second_of(b);
        }
        c[i * c_row + j] = sum;
      }
    }
  }
};

}  // namespace test
