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
inline float half_of(std::uint32_t pair, unsigned half) {
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
    double a[2][16], b[2][16];  // two rows, two columns: those that meet in the lane's sums
  };
  const Given given{{a[0], a[1], a[2], a[3]}, {b0, b1}};
  const unsigned lane = Block::running()->lane();
  const Factors own = Block::running()->meet(
      whole_warp_mask, given, {"mma", file, line}, false, [lane](const Meeting& meeting) {
        Factors all;
        Given row, column;
        for (unsigned quarter = 0; quarter < 4; ++quarter) {  // four lanes hold a row between them, or a column
          std::memcpy(&row, meeting.deposits[lane / 4 * 4 + quarter], sizeof row);
          for (unsigned i = 0; i < 2; ++i) {
            std::memcpy(&column, meeting.deposits[(lane % 4 * 2 + i) * 4 + quarter], sizeof column);
            for (unsigned k = 0; k < 4; ++k) {
              const unsigned place = k / 2 * 8 + quarter * 2 + k % 2;
              all.a[i][place] = static_cast<double>(half_of(row.a[k / 2 * 2 + i], k % 2));
              all.b[i][place] = static_cast<double>(half_of(column.b[k / 2], k % 2));
            }
          }
        }
        return all;
      });
  float* const sums[4] = {&sum0, &sum1, &sum2, &sum3};
  for (unsigned i = 0; i < 4; ++i) {
    auto sum = static_cast<double>(*sums[i]);
    for (unsigned k = 0; k < 16; ++k) sum += own.a[i / 2][k] * own.b[i % 2][k];
    *sums[i] = static_cast<float>(sum);
  }
}

}  // namespace emulation
