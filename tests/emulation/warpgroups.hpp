// SPDX-License-Identifier: MIT
#pragma once

/// Instructions of warpgroups: wgmma.m64n64k16 of bfloat16, which reads matrices in shared memory as the PTX ISA lays
/// them out in lines of 128 bytes. Sums are taken in double and rounded once, when the thread waits for them; until
/// then they are poison.

#include "emulation/tensor_cores.hpp"

#include <array>

namespace emulation {

/// Sixteen of a matrix's inner dimension and 64, or so many as are asked for, of its outer one, which begin in shared
/// memory; bytes from one eight lines to the next, and from one 64 of columns to the next.
struct LinesOfShared {
  const std::byte* begin;
  unsigned leading, stride;
};

/// Element k of the inner dimension and i of the outer one. In lines the inner dimension runs, or the outer one.
inline float element(const LinesOfShared& matrix, bool outer_in_lines, unsigned i, unsigned k) {
  const unsigned offset = outer_in_lines ? i % 64 * 2 + i / 64 * matrix.leading + k % 8 * 128 + k / 8 * matrix.stride
                                         : i % 8 * 128 + i / 8 * matrix.stride + k * 2;
  auto address = reinterpret_cast<std::uintptr_t>(matrix.begin) + offset;
  address ^= (address >> 7 & 7) << 4;  // sixteen bytes of a line are where its number, of eight, sends them
  return *reinterpret_cast<const __nv_bfloat16*>(address);
}

/// Where the eights of lines begin that 64 of the outer dimension have or, if lines run along it, 16 of the inner one.
inline std::vector<const void*> eights_of(const LinesOfShared& matrix, bool outer_in_lines) {
  std::vector<const void*> all;
  for (unsigned i = 0; i < (outer_in_lines ? 2 : 8); ++i) all.push_back(matrix.begin + i * matrix.stride);
  return all;
}

/// The thread's registers are written before what follows reads them.
inline void begin_products() { Block::running()->fenced() = true; }
/// Waits for all products that the thread has begun.
inline void await_products() {
  Block& block = *Block::running();
  std::remove_cvref_t<decltype(block.products())> begun;
  {
    const Ignored executor;
    begun.swap(block.products());
    block.fenced() = false;
  }
  for (const auto& [sums, product] : begun) product();
}
inline void show_writes() { Block::running()->show_writes(); }
/// What the thread writes to a place of shared memory is not shown.
inline void hide_write(const void* place) {
  if (Block* const block = Block::running()) block->hide_write(place);
}

/// sums (=|+=) a b of (64, 16) and (16, 64): the thread's 32, in the order of the instruction's registers; a(row, k) of
/// the warp's 16 rows.
template <class RowsOfA>
void begin_product(bool add, const std::array<float*, 32>& sums, const RowsOfA& a, std::vector<const void*> read,
                   const LinesOfShared& b, bool columns_in_lines, const Site& site) {
  Block& block = *Block::running();
  if (!block.fenced()) throw Fault("registers are not fenced before " + site.text());
  const auto read_of_b = eights_of(b, columns_in_lines);
  read.insert(read.end(), read_of_b.begin(), read_of_b.end());
  block.join_group(read, site);
  const Ignored executor;
  auto& begun = block.products();
  const auto are_these = [&](const auto& product) { return product.first == sums[0]; };
  if (std::none_of(begun.begin(), begun.end(), are_these)) {
    std::array<float, 32> before;
    std::transform(sums.begin(), sums.end(), before.begin(), [](const float* sum) { return *sum; });
    begun.emplace_back(sums[0], [=] {
      for (std::size_t i = 0; i < 32; ++i) *sums[i] = before[i];
    });
  }
  for (float* sum : sums) *sum = std::bit_cast<float>(0xffffffffu);
  begun.emplace_back(sums[0], [=, lane = block.lane()] {
    double rows[2][16], column[16];  // those of the thread
    for (unsigned k = 0; k < 32; ++k) rows[k / 16][k % 16] = static_cast<double>(a(lane / 4 + k / 16 * 8, k % 16));
    for (unsigned i = 0; i < 16; ++i) {
      const unsigned col = i / 2 * 8 + lane % 4 * 2 + i % 2;
      for (unsigned k = 0; k < 16; ++k) column[k] = static_cast<double>(element(b, columns_in_lines, col, k));
      for (unsigned half = 0; half < 2; ++half) {
        float& entry = *sums[i / 2 * 4 + half * 2 + i % 2];
        double sum = add ? static_cast<double>(entry) : 0;
        for (unsigned k = 0; k < 16; ++k) sum += rows[half][k] * column[k];
        entry = static_cast<float>(sum);
      }
    }
  });
}
/// With a (64, 16) in shared memory.
inline void begin_product(bool add, const std::array<float*, 32>& sums, const LinesOfShared& a, const LinesOfShared& b,
                          const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  const unsigned warp_row = Block::running()->warp() % group_warps * 16;
  begin_product(
      add, sums, [=](unsigned row, unsigned k) { return element(a, false, warp_row + row, k); },
      eights_of(a, false), b, false, {"wgmma", file, line});
}
/// With a in registers, as mma.m16n8k16 has them, and lines of b that run along its columns.
inline void begin_product(const std::array<float*, 32>& sums, const std::uint32_t (&a)[4], const LinesOfShared& b,
                          const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  const Site site{"wgmma", file, line};
  using Registers = std::array<std::uint32_t, 4>;
  using Warp = std::array<Registers, 32>;
  const Registers own{a[0], a[1], a[2], a[3]};
  const Warp all = Block::running()->meet(whole_warp_mask, own, site, false, [](const Meeting& meeting) {
    Warp registers;
    for (std::size_t lane = 0; lane < 32; ++lane) {
      std::memcpy(&registers[lane], meeting.deposits[lane], sizeof registers[lane]);
    }
    return registers;
  });
  begin_product(
      true, sums,
      [=](unsigned row, unsigned k) {
        return half_of(all[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2], k % 2);
      },
      {}, b, true, site);
}

}  // namespace emulation
