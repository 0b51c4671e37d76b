// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/tensor_cores.cuh
/// The products of tile.cuh by tensor cores: matrices are rounded to bfloat16, sums are float. From sm_80 on.
///
/// A warp has 16 rows of a product, or 32. Of matrices (16, 16) and (16, 8) its instruction adds a product (16, 8), of
/// which a lane has two neighbours of a row, and two of the row eight below. Where two such products are side by side,
/// a lane has what it must hold of them as the left factor of the next instruction: X Y^T becomes the W of W Y in
/// registers.
///
/// With 16 rows 512 bytes of Y come from shared memory for every two instructions, which takes longer than they do: 16
/// cycles at a quarter of its 128 bytes a cycle, and they 8 on an H100. With 32 rows they serve four.
/// Source: PTX ISA, "Matrix Fragments for mma.m16n8k16", "ldmatrix" and "cp.async".

#include <simplx/cuda/bfloat16_values.cuh>
#include <simplx/cuda/tile.cuh>

#include <cmath>
#include <cstring>
#include <numeric>
#include <type_traits>

namespace simplx::inline SIMPLX_TARGET::gpu {

/// Two neighbours, the first one in the lower half: a register of a fragment.
using BfloatPair = std::uint32_t;

__device__ __forceinline__ BfloatPair pair_of(float first, float second) {
  const __nv_bfloat162 rounded = __floats2bfloat162_rn(first, second);
  BfloatPair bits;
  std::memcpy(&bits, &rounded, sizeof bits);
  return bits;
}

/// As many bytes of shared memory begin to get so many of a buffer, and zeros after them; nothing is read for none.
template <int size = 16>
__device__ __forceinline__ void begin_copy(void* to, const void* from, unsigned bytes) {
#if defined(__CUDACC__)
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  if constexpr (size == 16) {  // past the first cache
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(address), "l"(from), "r"(bytes) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 :
                 : "r"(address), "l"(from), "n"(size), "r"(bytes)
                 : "memory");
  }
#else
  ::emulation::begin_copy<size>(to, from, bytes);
#endif
}
/// Waits for all copies that the thread has begun.
__device__ __forceinline__ void await_copies() {
#if defined(__CUDACC__)
  asm volatile("cp.async.wait_all;" : : : "memory");
#else
  ::emulation::await_copies();
#endif
}

/// What a lane holds of four matrices (8, 8) in shared memory; lane 8 m + r gives the address of row r of matrix m, of
/// 16 bytes. Lane l gets the neighbours 2 (l % 4) and the next of row l / 4; if transposed, of column l / 4.
template <bool transposed>
__device__ __forceinline__ void load_matrices(BfloatPair (&to)[4], const __nv_bfloat16* row) {
#if defined(__CUDACC__)
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if constexpr (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  }
#else
  ::emulation::load_matrices(to, row, transposed);
#endif
}

/// sums += a b of matrices (16, 16) and (16, 8). Of lane l, with r = l / 4 and c = 2 (l % 4), a pair a[i] begins at
/// row r + 8 (i % 2) and column c + 8 (i / 2); b[i] at row c + 8 i of column r, downwards; a sum i is of row
/// r + 8 (i / 2) and column c + i % 2.
__device__ __forceinline__ void multiply_fragments(float& sum0, float& sum1, float& sum2, float& sum3,
                                                   const BfloatPair (&a)[4], BfloatPair b0, BfloatPair b1) {
#if defined(__CUDACC__)
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
               "{%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sum0), "+f"(sum1), "+f"(sum2), "+f"(sum3)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  ::emulation::multiply_fragments(sum0, sum1, sum2, sum3, a, b0, b1);
#endif
}

template <int rows_of_warp = 16>
struct TensorCores {
  using Number = float;
  static_assert(rows_of_warp % 16 == 0);
  using Wide = TensorCores<32>;
  static constexpr bool by_groups = false;

  template <int width>
  static constexpr int padded = (width + 15) / 16 * 16;

  /// A matrix in shared memory; rows are padded to an odd number of sixteen bytes: eight below one another are in
  /// different banks.
  template <int row_count, int col_count>
  struct Tile {
    static constexpr int rows = row_count, cols = col_count;
    alignas(16) __nv_bfloat16 at[rows][padded<cols> + 8];

    __device__ __nv_bfloat16* place(int row, int col) { return &at[row][col]; }
  };
  /// W stays in registers.
  template <int rows, int cols>
  struct Weights {};

  static constexpr int places = 2, least_others = 16;
  static constexpr int most_others = rows_of_warp == 16 ? 64 : 32;
  static constexpr int most_held = rows_of_warp == 16 ? 200 : 192;
  template <int held, int sums, int threads>
  static constexpr int blocks = held <= 96 ? 3 : 2;
  /// So that a multiprocessor has two blocks from sm_80 on, but for small ones.
  static constexpr std::size_t most_shared = std::size_t(80) << 10;
  static constexpr bool copies = true, means_beside = true;

  static constexpr int warp_rows = rows_of_warp, own_rows = warp_rows / 8, col_lanes = 4;
  template <int cols>
  static constexpr int own_cols = padded<cols> / col_lanes;

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % warp_lanes; }
  /// The first row of the warp.
  __device__ static int warp_row() { return static_cast<int>(threadIdx.x) / warp_lanes * warp_rows; }
  static constexpr int group_rows = warp_rows;
  __device__ static int group_row() { return warp_row(); }
  __device__ static int own_row(int a) { return warp_row() + lane() / 4 + 8 * a; }
  __device__ static int own_col(int b) { return b / 2 * 8 + lane() % 4 * 2 + b % 2; }

  template <int cols>
  using Scores = float[own_rows][own_cols<cols>];
  template <int width>
  using Product = Scores<width>;

  template <int cols, class F>
  __device__ __forceinline__ static void each_score(const F& f) {
    SIMPLX_UNROLL
    for (int a = 0; a < own_rows; ++a) {
      SIMPLX_UNROLL
      for (int b = 0; b < own_cols<cols>; ++b) f(a, b, own_row(a), own_col(b));
    }
  }
  template <int width>
  static constexpr int together = std::gcd(width, 2);
  template <int width, class F>
  __device__ __forceinline__ static void each_own(int rows, const F& f) {
    each_score<width>([&](int a, int c, int row, int col) {
      if (c % together<width> == 0 && row < rows && col < width) f(a, c, row, col);
    });
  }
  template <int width>
  __device__ __forceinline__ static auto own(const Product<width>& product, int a, int c) {
    Numbers<float, together<width>> numbers;
    SIMPLX_UNROLL
    for (int k = 0; k < together<width>; ++k) numbers.of[k].value = product[a][c + k];
    return numbers;
  }
  template <int width>
  __device__ __forceinline__ static void scale_row(Product<width>& product, int a, float factor) {
    for (float& sum : product[a]) sum *= factor;
  }

  /// log2(e): a power of two, but for two bits and denormals, is one instruction, that of e nine.
  static constexpr float unit = 1.44269504f;
  __device__ __forceinline__ static float power(float x) {
#if defined(__CUDACC__)
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
#else
    return std::exp2(x);
#endif
  }

  /// Products round their factors; a number as they see it.
  static constexpr bool rounds = true;
  __device__ static float as_factor(float x) { return wide(__float2bfloat16(x)); }

  __device__ static float row_sum(float part) {
    return over_lanes<col_lanes>(part, 1, [](float x, float y) { return x + y; });
  }
  __device__ static float row_max(float part) {
    return over_lanes<col_lanes>(part, 1, [](float x, float y) { return std::fmax(x, y); });
  }

  /// A tile of a matrix of float or bfloat16 that begins at an element of a buffer; beyond the rows that there are, and
  /// in the padding, zero. Buffers, and rows of a multiple of eight columns, begin on 16 bytes. Such rows of bfloat16
  /// go past registers: threads do other things meanwhile, until `arrive`.
  template <int threads, class AnyTile, class T>
  __device__ static void load(AnyTile& tile, const T* buffer, Index first, Index stride, int rows_there) {
    constexpr int rows = AnyTile::rows, cols = AnyTile::cols;
    constexpr int each = cols % 8 == 0 ? 8 : 2, parts = padded<cols> / each;
    struct alignas(16) Sixteen {
      BfloatPair of[4];
    };
    each_part<threads, rows, parts>([&](int row, int below, int part) {
      const int col = part * each;
      const T* const place = buffer + (first + row * stride + col) + below * stride;
      __nv_bfloat16* const to = tile.place(row + below, col);
      const bool there = row + below < rows_there;
      if constexpr (each == 8 && std::is_same_v<T, __nv_bfloat16>) {
        begin_copy(to, place, there && col < cols ? sizeof(Sixteen) : 0);
      } else {
        T numbers[each];
        if constexpr (each == 8) {
          constexpr int count = each * sizeof(T) / sizeof(Sixteen);
          Sixteen loaded[count] = {};  // one request each
          if (there && col < cols) {
            const auto* const sixteens = reinterpret_cast<const Sixteen*>(neighbours<16 / sizeof(T)>(place));
            SIMPLX_UNROLL
            for (int k = 0; k < count; ++k) loaded[k] = sixteens[k];
          }
          std::memcpy(static_cast<void*>(numbers), loaded, sizeof numbers);
        } else {
          SIMPLX_UNROLL
          for (int k = 0; k < each; ++k) numbers[k] = there && col + k < cols ? place[k] : T(0.0f);
        }
        BfloatPair pairs[each / 2];
        round_pairs(numbers, pairs);
        Neighbours<__nv_bfloat16, each> rounded;  // stored by one request
        std::memcpy(static_cast<void*>(&rounded), pairs, sizeof pairs);
        *neighbours<each>(to) = rounded;
      }
    });
  }

  /// Numbers of a buffer, `stride` apart; zero beyond those that there are.
  template <int threads, int count>
  __device__ static void load(float (&to)[count], const float* from, Index stride, int there) {
    each_part<threads, count, 1>([&](int i, int below, int) {
      begin_copy<4>(&to[i + below], from + (i + below) * stride, i + below < there ? 4 : 0);
    });
  }

  /// Waits for what the thread has loaded; a barrier after it lets others read that.
  __device__ static void arrive() { await_copies(); }

  template <int rows, int cols, int width>
  __device__ static void multiply_rows(const Tile<rows, width>& x, const Tile<cols, width>& y, Scores<cols>& sums) {
    static_assert(cols % 16 == 0);
    __syncwarp();  // all lanes of a warp execute its instructions together
    each_score<cols>([&](int a, int b, int, int) { sums[a][b] = 0; });
    SIMPLX_UNROLL
    for (int k = 0; k < padded<width>; k += 16) {
      BfloatPair of_x[warp_rows / 16][4];
      SIMPLX_UNROLL
      for (int row = 0; row < warp_rows; row += 16) {
        load_matrices<false>(of_x[row / 16], &x.at[warp_row() + row + lane() % 16][k + lane() / 16 * 8]);
      }
      SIMPLX_UNROLL
      for (int col = 0; col < cols; col += 16) {
        BfloatPair of_y[4];  // of columns col, and from col + 8 on
        load_matrices<false>(of_y, &y.at[col + lane() / 16 * 8 + lane() % 8][k + lane() / 8 % 2 * 8]);
        add_both(sums, col, of_x, of_y);
      }
    }
  }

  template <int rows, int count, int width>
  __device__ static void add_product(const Scores<count>& w, Weights<rows, count>&, const Tile<count, width>& y,
                                     Product<width>& sums) {
    __syncwarp();
    SIMPLX_UNROLL
    for (int k = 0; k < count; k += 16) {
      const int b = k / col_lanes;
      BfloatPair of_w[warp_rows / 16][4];
      SIMPLX_UNROLL
      for (int a = 0; a < own_rows; ++a) {
        SIMPLX_UNROLL
        for (int half = 0; half < 2; ++half) {
          of_w[a / 2][a % 2 + 2 * half] = pair_of(w[a][b + 2 * half], w[a][b + 2 * half + 1]);
        }
      }
      SIMPLX_UNROLL
      for (int col = 0; col < padded<width>; col += 16) {
        BfloatPair of_y[4];
        load_matrices<true>(of_y, &y.at[k + lane() % 16][col + lane() / 16 * 8]);
        add_both(sums, col, of_w, of_y);
      }
    }
  }

 private:
  template <int each>
  __device__ static void round_pairs(const float (&numbers)[each], BfloatPair (&pairs)[each / 2]) {
    SIMPLX_UNROLL
    for (int k = 0; k < each; k += 2) pairs[k / 2] = pair_of(numbers[k], numbers[k + 1]);
  }
  template <int each>
  __device__ static void round_pairs(const __nv_bfloat16 (&numbers)[each], BfloatPair (&pairs)[each / 2]) {
    std::memcpy(pairs, static_cast<const void*>(numbers), sizeof pairs);
  }

  /// Adds products to the sums of 16 columns, eight and eight.
  template <int count>
  __device__ __forceinline__ static void add_both(float (&sums)[own_rows][count], int col,
                                                  const BfloatPair (&a)[warp_rows / 16][4], const BfloatPair (&b)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    static_assert(count < 0, "tensor cores multiply bfloat16 from sm_80 on; compile with -arch=sm_80 or a later one");
#endif
    SIMPLX_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int at = col / col_lanes + 2 * half;
      SIMPLX_UNROLL
      for (int row = 0; row < own_rows; row += 2) {
        multiply_fragments(sums[row][at], sums[row][at + 1], sums[row + 1][at], sums[row + 1][at + 1], a[row / 2],
                           b[2 * half], b[2 * half + 1]);
      }
    }
  }
};

}  // namespace simplx::gpu
