// SPDX-License-Identifier: MIT
#pragma once

/// Copies that go past registers, and the warp's instructions for matrices of bfloat16, ldmatrix and mma.m16n8k16, lane
/// by lane as the PTX ISA lays their fragments out. Products are exact, sums are taken in double and rounded once:
/// hardware keeps fewer bits.

#include "emulation/bfloat16.hpp"
#include "emulation/executor.hpp"

#include <cstring>

namespace emulation {

inline constexpr unsigned whole_warp_mask = 0xffffffffu;

/// Of 4, 8 or 16 bytes.
template <int size>
void begin_copy(void* to, const void* from, unsigned bytes, const char* file = __builtin_FILE(),
                int line = __builtin_LINE()) {
  static_assert(size == 4 || size == 8 || size == 16);
  Block::running()->begin_copy(to, from, size, bytes, {"cp.async", file, line});
}
inline void await_copies() { Block::running()->await_copies(); }

/// Element `half` of a register.
inline float half_of(std::uint32_t pair, int half) {
  return std::bit_cast<float>(half ? pair & 0xffff0000u : pair << 16);
}

inline void load_matrices(std::uint32_t (&to)[4], const __nv_bfloat16* row, bool transposed,
                          const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  const Site site{"ldmatrix", file, line};
  if (reinterpret_cast<std::uintptr_t>(row) % 16) throw Fault("a row is not on 16 bytes, at " + site.text());
  struct Rows {
    const __nv_bfloat16* of[4][8];
  };
  const Rows rows = Block::running()->meet(whole_warp_mask, row, site, false, [](const Meeting& meeting) {
    Rows all;
    for (unsigned lane = 0; lane < 32; ++lane) {
      std::memcpy(&all.of[lane / 8][lane % 8], meeting.deposits[lane], sizeof all.of[0][0]);
    }
    return all;
  });
  const unsigned lane = Block::running()->lane(), slow = lane / 4, fast = lane % 4 * 2;
  for (int m = 0; m < 4; ++m) {
    __nv_bfloat16 both[2];
    for (unsigned e = 0; e < 2; ++e) both[e] = transposed ? rows.of[m][fast + e][slow] : rows.of[m][slow][fast + e];
    std::memcpy(&to[m], both, sizeof both);
  }
}

inline void multiply_fragments(float& sum0, float& sum1, float& sum2, float& sum3, const std::uint32_t (&a)[4],
                               std::uint32_t b0, std::uint32_t b1, const char* file = __builtin_FILE(),
                               int line = __builtin_LINE()) {
  struct Given {
    std::uint32_t a[4], b[2];
  };
  struct Factors {
    float a[16][16], b[16][8];
  };
  const Given given{{a[0], a[1], a[2], a[3]}, {b0, b1}};
  const auto factors = Block::running()->meet(
      whole_warp_mask, given, {"mma", file, line}, false, [](const Meeting& meeting) {
        Factors all;
        for (int lane = 0; lane < 32; ++lane) {
          Given one;
          std::memcpy(&one, meeting.deposits[lane], sizeof one);
          const int row = lane / 4, col = lane % 4 * 2;
          for (int e = 0; e < 2; ++e) {
            for (int i = 0; i < 4; ++i) all.a[row + i % 2 * 8][col + i / 2 * 8 + e] = half_of(one.a[i], e);
            for (int i = 0; i < 2; ++i) all.b[col + i * 8 + e][row] = half_of(one.b[i], e);
          }
        }
        return all;
      });
  const auto lane = static_cast<int>(Block::running()->lane());
  float* const sums[4] = {&sum0, &sum1, &sum2, &sum3};
  for (int i = 0; i < 4; ++i) {
    double sum = static_cast<double>(*sums[i]);
    for (int k = 0; k < 16; ++k) {
      sum += static_cast<double>(factors.a[lane / 4 + i / 2 * 8][k]) *
             static_cast<double>(factors.b[k][lane % 4 * 2 + i % 2]);
    }
    *sums[i] = static_cast<float>(sum);
  }
}

}  // namespace emulation
