// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/embedding.cuh
/// Rows of a table by index, as ops/embedding.hpp, and their pull-back without atomics.
///
/// One block has an index that occurs, and adds the rows that look it up in ascending order, as the CPU does: the same
/// bits, however often an index occurs.

#include <simplx/core/shape.hpp>
#include <simplx/cuda/index_runs.hpp>
#include <simplx/cuda/port.cuh>

#include <algorithm>

namespace simplx::inline SIMPLX_TARGET::gpu {

template <int cols>
inline constexpr int embedding_threads = cols > 128 ? 256 : 32 * ((cols + 31) / 32);

template <class S, int cols>
__global__ void __launch_bounds__(embedding_threads<cols>)
    embedding_kernel(const S* table, const std::int32_t* indices, S* y) {
  const Index row = blockIdx.x;
  const S* from = table + static_cast<Index>(indices[row]) * cols;
  for (int c = static_cast<int>(threadIdx.x); c < cols; c += embedding_threads<cols>) y[row * cols + c] = from[c];
}

template <class S, int cols>
__global__ void __launch_bounds__(embedding_threads<cols>)
    embedding_backward_kernel(const std::int32_t* rows, const IndexRun* runs, const S* dy, S* dtable) {
  const IndexRun run = runs[blockIdx.x];
  if (run.begin == run.end) return;
  const int c = static_cast<int>(blockIdx.y) * embedding_threads<cols> + static_cast<int>(threadIdx.x);
  if (c >= cols) return;
  S& place = dtable[static_cast<Index>(run.index) * cols + c];
  S sum = place;
  constexpr int ahead = 8;  // rows whose loads are on the way while others are added
  std::int32_t i = run.begin;
  for (; i + ahead <= run.end; i += ahead) {
    S loaded[ahead];
    SIMPLX_UNROLL
    for (int k = 0; k < ahead; ++k) loaded[k] = dy[static_cast<Index>(rows[i + k]) * cols + c];
    SIMPLX_UNROLL
    for (int k = 0; k < ahead; ++k) sum += loaded[k];
  }
  for (; i < run.end; ++i) sum += dy[static_cast<Index>(rows[i]) * cols + c];
  place = sum;
}

/// A block has a position of all sequences, or of every gridDim.y-th.
template <class S, int cols>
__global__ void __launch_bounds__(embedding_threads<cols>)
    positions_kernel(const S* table, const Index* past, const Index* offsets, Index sequences, S* y) {
  const Index position = blockIdx.x;
  for (int c = static_cast<int>(threadIdx.x); c < cols; c += embedding_threads<cols>) {
    const S value = table[position * cols + c];  // of whole sequences
    for (Index s = blockIdx.y; s < sequences; s += gridDim.y) {
      const Index row = offsets[s] + position;
      if (row < offsets[s + 1]) y[row * cols + c] = past ? table[(past[s] + position) * cols + c] : value;
    }
  }
}

template <class S, int cols>
__global__ void __launch_bounds__(embedding_threads<cols>)
    positions_backward_kernel(const Index* offsets, Index sequences, const S* dy, S* dtable) {
  const Index position = blockIdx.x;
  for (int c = static_cast<int>(threadIdx.x); c < cols; c += embedding_threads<cols>) {
    S sum = dtable[position * cols + c];
    for (Index s = 0; s < sequences; ++s) {
      const Index row = offsets[s] + position;
      if (row < offsets[s + 1]) sum += dy[row * cols + c];
    }
    dtable[position * cols + c] = sum;
  }
}

/// y_r = table[indices_r].
///
/// Shapes  table (any, cols); indices (rows); y (rows, cols)
template <class S, int cols>
void embedding(cudaStream_t stream, const S* table, const std::int32_t* indices, S* y, Index rows) {
  launch(stream, embedding_kernel<S, cols>, blocks_for(rows, 1), embedding_threads<cols>, table, indices, y);
}

/// dtable[index_r] += dy_r for all rows; `rows` and `runs` are those of IndexRuns, copied to the device, and
/// empty runs after them do nothing.
///
/// Shapes  rows (rows); runs (count); dy (rows, cols); dtable (any, cols)
/// Cost    reads dy once; an index that occurs n times makes n additions in a row, their loads eight at a time
template <class S, int cols>
void embedding_backward(cudaStream_t stream, const std::int32_t* rows, const IndexRun* runs, Index count, const S* dy,
                        S* dtable) {
  constexpr int threads = embedding_threads<cols>;
  launch(stream, embedding_backward_kernel<S, cols>, dim3(blocks_for(count, 1), blocks_for(cols, threads)), threads,
         rows, runs, dy, dtable);
}

/// The row of the table for each token's position in its sequence, of which past[s] tokens came before; null: none.
///
/// Shapes  table (context, cols), context >= past[s] + longest; sequence s has rows offsets[s] .. offsets[s + 1]; both
///         on the device; y (tokens, cols)
template <class S, int cols>
void positions(cudaStream_t stream, const S* table, const Index* past, const Segments& sequences, Index longest,
               S* y) {
  const unsigned apart = past ? blocks_for(std::min<Index>(sequences.count, 65535), 1) : 1;  // each has rows of its own
  launch(stream, positions_kernel<S, cols>, dim3(blocks_for(longest, 1), apart), embedding_threads<cols>, table, past,
         sequences.offsets, sequences.count, y);
}

/// dtable[t] += the gradients at position t of all sequences, the first sequence first.
template <class S, int cols>
void positions_backward(cudaStream_t stream, const Segments& sequences, Index longest, const S* dy, S* dtable) {
  launch(stream, positions_backward_kernel<S, cols>, blocks_for(longest, 1), embedding_threads<cols>, sequences.offsets,
         sequences.count, dy, dtable);
}

}  // namespace simplx::gpu
