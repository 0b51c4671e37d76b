// SPDX-License-Identifier: MIT
#pragma once

/// A matrix unit for every CPU: what Amx::multiply computes, number by number.

#include <simplx/cpu/amx.hpp>

#include <bit>
#include <cstdint>

namespace test {

using simplx::Index, simplx::cpu::Twin, simplx::Write;

inline float first_of(Twin pair) { return std::bit_cast<float>(static_cast<std::uint32_t>(pair) << 16); }
inline float second_of(Twin pair) { return std::bit_cast<float>(static_cast<std::uint32_t>(pair) & 0xffff0000u); }

struct EmulatedUnit {
  template <int pieces, int rows, int cols, Write mode>
  void multiply(Index steps, const Twin* left, const Twin* right, Index right_row, float* c, Index c_row,
                simplx::cpu::FetchRows = {}) const {
    for (Index i = 0; i < 16 * rows; ++i) {
      for (Index j = 0; j < 16 * cols; ++j) {
        float sum = mode == Write::accumulate ? c[i * c_row + j] : 0;
        for (Index step = 0; step < steps; ++step) {
          for (int of_left = pieces; of_left-- > 0;) {
            for (int of_right = pieces - of_left; of_right-- > 0;) {  // what is smaller than the last piece is left out
              const Index left_tile = (i / 16 * steps + step) * pieces + of_left, right_tile = step * pieces + of_right;
              for (Index pair = 0; pair < 16; ++pair) {
                const Twin a = left[(left_tile * 16 + i % 16) * 16 + pair];
                const Twin b = right[(right_tile * 16 + pair) * right_row + j];
                sum += first_of(a) * first_of(b) + second_of(a) * second_of(b);
              }
            }
          }
        }
        c[i * c_row + j] = sum;
      }
    }
  }
};

}  // namespace test
