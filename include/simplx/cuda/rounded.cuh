// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/rounded.cuh
/// Matrices rounded to bfloat16 on their way to tensor cores: in scratch memory, or, parameters, beside them, once when
/// they change and not each time a product reads them.

#include <simplx/core/info.hpp>
#include <simplx/cuda/port.cuh>

#include <cstring>

namespace simplx::inline SIMPLX_TARGET::gpu {

/// A factor of a product, its rows `stride` elements apart.
template <class W>
struct Factor {
  const W* data;
  Index stride;
};
/// Its rows begin on 16 bytes: a value that is stored so, or a copy in the scratch memory of an op, its padding zero.
using Rounded = Factor<__nv_bfloat16>;
constexpr Index rounded_stride(Index cols) { return round_up(cols, 8); }
/// Floats that a copy takes the place of.
constexpr Index rounded_scratch(Index rows, Index cols) { return round_up(rows * rounded_stride(cols) / 2, alignment); }

inline constexpr int rounding_threads = 256;

/// A thread has eight neighbours of a row.
template <Index cols>
__global__ void __launch_bounds__(rounding_threads)
    round_kernel(const float* from, Index stride, Index rows, __nv_bfloat16* to) {
  constexpr Index eights = (cols + 7) / 8;
  struct alignas(16) Eight {
    __nv_bfloat162 pairs[4];
  };
  const Index i = static_cast<Index>(blockIdx.x) * rounding_threads + static_cast<Index>(threadIdx.x);
  if (i >= rows * eights) return;
  const Index row = i / eights, col = i % eights * 8;
  float numbers[8];
  const float* const place = from + row * stride + col;
  if (cols % 8 == 0 && stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0) {
    std::memcpy(numbers, __builtin_assume_aligned(place, 16), sizeof numbers);
  } else {
    SIMPLX_UNROLL
    for (int k = 0; k < 8; ++k) numbers[k] = col + k < cols ? place[k] : 0.0f;
  }
  Eight rounded;
  SIMPLX_UNROLL
  for (int k = 0; k < 4; ++k) rounded.pairs[k] = __floats2bfloat162_rn(numbers[2 * k], numbers[2 * k + 1]);
  std::memcpy(static_cast<void*>(__builtin_assume_aligned(to + 8 * i, sizeof rounded)), &rounded, sizeof rounded);
}

/// Rounds a matrix (rows, cols), its rows `stride` apart, into rounded_scratch(rows, cols) floats of scratch, which is
/// moved on.
///
/// Cost    reads 4 bytes and writes 2 for each number
template <Index cols, Index stride = cols>
Rounded round_to_bfloat16(cudaStream_t stream, const float* from, Index rows, float*& scratch) {
  auto* const to = reinterpret_cast<__nv_bfloat16*>(scratch);
  scratch += rounded_scratch(rows, cols);
  const Index eights = rows * rounded_stride(cols) / 8;
  launch(stream, round_kernel<cols>, blocks_for(eights, rounding_threads), rounding_threads, from, stride, rows, to);
  return {to, rounded_stride(cols)};
}

/// Parameters (count), a multiple of `alignment`, to what lies beside them.
inline void round_parameters(cudaStream_t stream, const float* from, Index count, __nv_bfloat16* to) {
  launch(stream, round_kernel<alignment>, blocks_for(count / 8, rounding_threads), rounding_threads, from, alignment,
         count / alignment, to);
}

/// Whether operand k of a node is a parameter whose rows begin on 16 bytes where it lies rounded.
template <class F, int k>
inline constexpr bool rounded_beside = F::Graph::table.info[F::template argument<k>].kind == Kind::parameter &&
                                       F::template shape<k>.cols % 8 == 0;

}  // namespace simplx::gpu
