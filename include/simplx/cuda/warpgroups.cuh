// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/warpgroups.cuh
/// The products of tile.cuh by warpgroups, as an H100 has them: four warps have 64 rows of a product, and read what
/// they multiply where it lies in shared memory. Programs with it are compiled for sm_90a alone:
///
///     nvcc -gencode arch=compute_90a,code=sm_90a -DSIMPLX_WARPGROUPS ...     // -arch=sm_90a is for compute_90, too
///
/// Not with -rdc=true: products then wait for each other.
///
/// Of matrices (64, 16) and (16, 64) an instruction adds a product, of which a warp has 16 rows, and its lanes the same
/// elements as by tensor_cores.cuh: X Y^T becomes the W of W Y in registers, here too. W Y reads Y across its rows.
///
/// Products go on while threads do other things: registers are fenced before them, sums awaited after.
/// Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".

#if defined(SIMPLX_WARPGROUPS) && defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "simplx: SIMPLX_WARPGROUPS is for sm_90a: compile with -gencode arch=compute_90a,code=sm_90a, or without it"
#endif

#include <simplx/cuda/tensor_cores.cuh>

namespace simplx::inline SIMPLX_TARGET::gpu {

/// What an instruction is told of a matrix in shared memory, 64 columns of bfloat16 a line of 128 bytes: where it
/// begins, and the bytes from one 64 columns to the next. Eight lines begin on 1024 bytes; sixteen bytes c of line r of
/// them are in place c ^ r: eight below one another are in different banks.
struct Lines {
  static constexpr int cols = 64, bytes = 128, eight = 8 * bytes;
#if defined(__CUDACC__)
  std::uint64_t matrix;
  __device__ __forceinline__ Lines(const void* begin, std::uint64_t next_cols) {
    const auto sixteens = [](std::uint64_t count) { return (count & 0x3ffff) >> 4; };
    constexpr std::uint64_t are_of_128 = 1;
    matrix = sixteens(__cvta_generic_to_shared(begin)) | sixteens(next_cols) << 16 | sixteens(eight) << 32 |
             are_of_128 << 62;
  }
  __device__ __forceinline__ void move(int count) { matrix += static_cast<std::uint64_t>(count / 16); }
#else
  ::emulation::LinesOfShared matrix;
  Lines(const void* begin, unsigned next_cols) : matrix{static_cast<const std::byte*>(begin), next_cols, eight} {}
  void move(int count) { matrix.begin += count; }
#endif
};

#if defined(__CUDACC__)
/// What the source does with registers before here is done before here, and what after, after: compilers know nothing
/// of products that go on.
template <int count>
__device__ __forceinline__ void settle(float (&sums)[2][count]) {
  for (auto& row : sums) {
    for (float& sum : row) asm volatile("" : "+f"(sum) : : "memory");
  }
}
template <int count>
__device__ __forceinline__ void settle(BfloatPair (&pairs)[count][4]) {
  for (auto& four : pairs) {
    for (BfloatPair& pair : four) asm volatile("" : "+r"(pair) : : "memory");
  }
}
#endif

/// Before products: they see what the thread has written to registers, that is to these.
template <class... Registers>
__device__ __forceinline__ void begin_products([[maybe_unused]] Registers&... registers) {
#if defined(__CUDACC__)
  (settle(registers), ...);
  asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
#else
  ::emulation::begin_products();
#endif
}
/// Behind them: waits for their sums.
template <int count>
__device__ __forceinline__ void await_products([[maybe_unused]] float (&sums)[2][count]) {
#if defined(__CUDACC__)
  asm volatile("wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;" : : : "memory");
  settle(sums);
#else
  ::emulation::await_products();
#endif
}
/// Lets products see what the thread has written to shared memory, once others know that it has.
__device__ __forceinline__ void show_writes() {
#if defined(__CUDACC__)
  asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
#else
  ::emulation::show_writes();
#endif
}

// The 32 sums of a lane in the instruction's order: of each eight columns two neighbours, and two eight rows below.
#define SIMPLX_SUMS(mode, of, at)                                             \
  SIMPLX_EIGHT_SUMS(mode, of, at), SIMPLX_EIGHT_SUMS(mode, of, at + 4),       \
      SIMPLX_EIGHT_SUMS(mode, of, at + 8), SIMPLX_EIGHT_SUMS(mode, of, at + 12)
#define SIMPLX_EIGHT_SUMS(mode, of, at) SIMPLX_FOUR_SUMS(mode, of, at), SIMPLX_FOUR_SUMS(mode, of, at + 2)
#define SIMPLX_FOUR_SUMS(mode, of, at) mode(of[0][at]), mode(of[0][at + 1]), mode(of[1][at]), mode(of[1][at + 1])
#define SIMPLX_WGMMA(add)                                                                        \
  "{\n\t.reg .pred added;\n\tsetp.ne.b32 added, " add ", 0;\n\t"                                \
  "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "                                        \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "   \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "

/// sums (=|+=) a b^T of matrices (64, 16), both in lines; of 64 columns from the lane's number `at` on.
template <int count>
__device__ __forceinline__ void begin_product(bool add, float (&sums)[2][count], int at, const Lines& a,
                                              const Lines& b) {
#if defined(__CUDACC__)
  if (add) {
    asm volatile(SIMPLX_WGMMA("1") "%32, %33, added, 1, 1, 0, 0;\n\t}"
                 : SIMPLX_SUMS("+f", sums, at)
                 : "l"(a.matrix), "l"(b.matrix));
  } else {  // what the registers had is nobody's
    asm volatile(SIMPLX_WGMMA("0") "%32, %33, added, 1, 1, 0, 0;\n\t}"
                 : SIMPLX_SUMS("=f", sums, at)
                 : "l"(a.matrix), "l"(b.matrix));
  }
#else
  ::emulation::begin_product(add, {SIMPLX_SUMS(&, sums, at)}, a.matrix, b.matrix);
#endif
}
/// sums += a b of matrices (64, 16) and (16, 64), a in registers as for multiply_fragments, b in lines.
template <int count>
__device__ __forceinline__ void begin_product(float (&sums)[2][count], int at, const BfloatPair (&a)[4],
                                              const Lines& b) {
#if defined(__CUDACC__)
  asm volatile(SIMPLX_WGMMA("1") "{%32, %33, %34, %35}, %36, added, 1, 1, 1;\n\t}"
               : SIMPLX_SUMS("+f", sums, at)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.matrix));
#else
  ::emulation::begin_product({SIMPLX_SUMS(&, sums, at)}, a, b.matrix);
#endif
}
#undef SIMPLX_WGMMA
#undef SIMPLX_FOUR_SUMS
#undef SIMPLX_EIGHT_SUMS
#undef SIMPLX_SUMS

/// What differs from TensorCores<16>: tiles in lines, and products that four warps begin and await together.
struct Warpgroups : TensorCores<16> {
  using Wide = Warpgroups;
  using Narrow = TensorCores<16>;  ///< for other widths
  static constexpr bool by_groups = true;
  static constexpr int group_rows = 64, group_threads = 128;

  static constexpr bool takes_width(int width) { return width % Lines::cols == 0 && width <= 128; }
  template <class Size>
  static constexpr bool takes = takes_width(Size::key_width) && takes_width(Size::value_width);

  static constexpr int most_others = 64, least_others = 64, most_held = 1 << 20;
  /// So that two blocks share the 228 KB of a Hopper's multiprocessor, heads of 128 columns with two places for tiles.
  static constexpr std::size_t most_shared = std::size_t(112) << 10;
  /// Two groups share what passes by, which then comes half as often from the second cache; two such blocks leave 128
  /// registers to a thread, three blocks of one group 168.
  static constexpr int most_sums_of_two = 192;
  template <int held, int sums, int threads>
  static constexpr int blocks = threads == group_threads && held <= 256 ? 3 : 2;

  /// Lines of 64 columns, side by side.
  template <int row_count, int col_count>
  struct Tile {
    static constexpr int rows = row_count, cols = col_count;
    static_assert(rows % 8 == 0 && cols % Lines::cols == 0);
    alignas(Lines::eight) __nv_bfloat16 at[cols / Lines::cols][rows][Lines::cols];

    /// For who writes there: instructions see it once it is shown to them.
    __device__ __nv_bfloat16* place(int row, int col) {
      __nv_bfloat16* const to = &at[col / Lines::cols][row][(col % Lines::cols / 8 ^ row % 8) * 8 + col % 8];
#if !defined(__CUDACC__)
      ::emulation::hide_write(to);
#endif
      return to;
    }
    __device__ Lines lines() const { return {at, sizeof at[0]}; }
    /// From a row, of eights, and a column, of sixteens, on.
    __device__ static Lines from(Lines lines, int row, int col) {
      lines.move(col / Lines::cols * static_cast<int>(sizeof at[0]) + row * Lines::bytes + col % Lines::cols * 2);
      return lines;
    }
  };

  /// By a shuffle, which says that it is one for a warp: places of matrices then stay in its uniform registers.
  __device__ static int group_row() {
    return __shfl_sync(whole_warp, static_cast<int>(threadIdx.x) / group_threads, 0) * group_rows;
  }

  __device__ static void arrive() {
    await_copies();
    show_writes();
  }

  template <int rows, int cols, int width>
  __device__ static void multiply_rows(const Tile<rows, width>& x, const Tile<cols, width>& y, Scores<cols>& sums) {
    static_assert(cols % 64 == 0);
    const Lines of_x = x.from(x.lines(), group_row(), 0), of_y = y.lines();
    begin_products();
    SIMPLX_UNROLL
    for (int k = 0; k < width; k += 16) {
      SIMPLX_UNROLL
      for (int col = 0; col < cols; col += 64) {
        begin_product(k > 0, sums, col / col_lanes, x.from(of_x, 0, k), y.from(of_y, col, k));
      }
    }
    await_products(sums);
  }

  template <int rows, int count, int width>
  __device__ static void add_product(const Scores<count>& w, Weights<rows, count>&, const Tile<count, width>& y,
                                     Product<width>& sums) {
    BfloatPair of_w[count / 16][4];
    SIMPLX_UNROLL
    for (int k = 0; k < count / 16; ++k) {
      SIMPLX_UNROLL
      for (int i = 0; i < 4; ++i) of_w[k][i] = pair_of(w[i % 2][4 * k + i / 2 * 2], w[i % 2][4 * k + i / 2 * 2 + 1]);
    }
    const Lines of_y = y.lines();
    begin_products(sums, of_w);
    SIMPLX_UNROLL
    for (int k = 0; k < count; k += 16) {
      SIMPLX_UNROLL
      for (int col = 0; col < width; col += 64) {
        begin_product(sums, col / col_lanes, of_w[k / 16], y.from(of_y, k, col));
      }
    }
    await_products(sums);
  }
};

/// Those of Cuda<Precision::bfloat16>.
#if defined(SIMPLX_WARPGROUPS)
using BFloat16Cores = Warpgroups;
#else
using BFloat16Cores = TensorCores<>;
#endif

}  // namespace simplx::gpu
