// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/labelled_losses.cuh
/// What a step makes of the losses of all rows: their sum, and the seed of their gradients. Rows without a label are no
/// part of either, whatever the model computes there.

#include <simplx/core/context.hpp>
#include <simplx/cuda/reduce.cuh>

namespace simplx::inline SIMPLX_TARGET::gpu {

inline constexpr int loss_sum_threads = 1024, seed_threads = 256;

template <Write mode, class S>
__global__ void __launch_bounds__(loss_sum_threads)
    sum_losses_kernel(const S* losses, const std::int32_t* labels, Index rows, double* sum) {
  double own = 0;
  for (Index i = threadIdx.x; i < rows; i += loss_sum_threads) {
    if (labels[i] != ignored_label) own += static_cast<double>(losses[i]);
  }
  own = block_sum<loss_sum_threads>(own);
  if (threadIdx.x == 0) *sum = mode == Write::accumulate ? *sum + own : own;
}

template <class S>
__global__ void __launch_bounds__(seed_threads)
    seed_losses_kernel(S* seeds, const std::int32_t* labels, Index rows, const S* scale) {
  const Index i = static_cast<Index>(blockIdx.x) * seed_threads + threadIdx.x;
  if (i < rows) seeds[i] = labels[i] == ignored_label ? S(0) : *scale;
}

/// The sum of the losses of some thousand labelled rows, in double; stored or added to.
///
/// Shapes  losses, labels (rows); sum (1)
/// Cost    one block
template <Write mode = Write::store, class S>
void sum_losses(cudaStream_t stream, const S* losses, const std::int32_t* labels, Index rows, double* sum) {
  launch(stream, sum_losses_kernel<mode, S>, 1, loss_sum_threads, losses, labels, rows, sum);
}

/// seeds = scale in labelled rows, 0 in others.
///
/// Shapes  seeds, labels (rows); scale (1), on the device
template <class S>
void seed_losses(cudaStream_t stream, S* seeds, const std::int32_t* labels, Index rows, const S* scale) {
  launch(stream, seed_losses_kernel<S>, blocks_for(rows, seed_threads), seed_threads, seeds, labels, rows, scale);
}

}  // namespace simplx::gpu
