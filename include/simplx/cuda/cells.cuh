// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/cells.cuh
/// A rule for each cell of a matrix: the kernel of all ops that move numbers and compute little.
///
/// A rule is a struct with `__device__ void operator()(Index row, Index col) const`. Sizes are run-time numbers, so
/// that a model has one kernel for each rule, not for each width; no index is divided.

#include <simplx/cuda/port.cuh>

#include <algorithm>
#include <bit>

namespace simplx::inline SIMPLX_TARGET::gpu {

inline constexpr unsigned cell_threads = 256;

template <class Rule>
__global__ void __launch_bounds__(cell_threads) cells_kernel(Index rows, Index first, Index cols, Rule rule) {
  const Index row = static_cast<Index>(blockIdx.x) * blockDim.y + threadIdx.y;
  const Index col = first + static_cast<Index>(blockIdx.y) * blockDim.x + threadIdx.x;
  if (row < rows && col < cols) rule(row, col);
}

/// Calls rule(row, col) for all cells. A warp has 32 columns of a row, or several rows of a narrow matrix.
template <class Rule>
void each_cell(cudaStream_t stream, Index rows, Index cols, const Rule& rule) {
  const unsigned across = std::bit_ceil(static_cast<unsigned>(std::min<Index>(cols, 32)));
  const unsigned down = cell_threads / across;
  const Index most = 65535 * static_cast<Index>(across);  // columns of a grid, whose y ends there
  for (Index first = 0; first < cols; first += most) {
    launch(stream, cells_kernel<Rule>, dim3(blocks_for(rows, down), blocks_for(std::min(most, cols - first), across)),
           dim3(across, down), rows, first, cols, rule);
  }
}

/// Where the cells of a matrix lie.
struct Strides {
  Index row, col = 1;
  SIMPLX_HD Index operator()(Index r, Index c) const { return r * row + c * col; }
};

template <Write mode, class S>
struct Move {
  const S* from;
  Strides read;
  S* to;
  Strides written;
  __device__ void operator()(Index row, Index col) const {
    write<mode>(to[written(row, col)], from[read(row, col)]);
  }
};

/// Copies or adds (rows, cols) cells between matrices that lie in any way.
template <Write mode, class S>
void move_cells(cudaStream_t stream, Index rows, Index cols, const S* from, Strides read, S* to, Strides written) {
  if constexpr (mode != Write::skip) {
    each_cell(stream, rows, cols, Move<mode, S>{from, read, to, written});
  }
}

}  // namespace simplx::gpu
