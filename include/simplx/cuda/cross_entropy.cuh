// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/cross_entropy.cuh
/// Cross-entropy of ops/cross_entropy.hpp and its gradient, which takes the place of the logits.
///
/// A block has a row. It reads the logits once for maximum and sum together (a sum over what has been seen, scaled anew
/// when a larger logit comes), and once more, from the cache, for the gradient. A row without a label costs a write.

#include <simplx/core/context.hpp>
#include <simplx/cuda/reduce.cuh>

#include <cmath>
#include <limits>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// sum exp(x - highest) of some x.
template <class S>
struct ExpSum {
  static constexpr S nothing = -std::numeric_limits<S>::infinity();
  S highest = nothing, sum = 0;

  __device__ void add(S x) {
    if (x > highest) {
      sum = sum * std::exp(highest - x) + 1;
      highest = x;
    } else if (highest > nothing || x != x) {  // minus infinity alone adds nothing
      sum += std::exp(x - highest);
    }
  }
};

template <int threads, class S>
__device__ S block_max(S value) {
  constexpr int warps = threads / warp_lanes;
  SIMPLX_SHARED(parts, S[warps]);
  value = warp_max(value);
  if (threadIdx.x % warp_lanes == 0) parts[threadIdx.x / warp_lanes] = value;
  __syncthreads();
  value = parts[0];
  for (int warp = 1; warp < warps; ++warp) value = parts[warp] > value ? parts[warp] : value;
  return value;  // who calls this has a barrier before the next call
}

template <int classes>
inline constexpr int cross_entropy_threads = classes > 4096 ? 1024 : classes > 512 ? 256 : 128;

template <class S, int classes, int stride, bool smooths, bool wants_gradient>
__global__ void __launch_bounds__(cross_entropy_threads<classes>)
    cross_entropy_kernel(S* logits, const std::int32_t* labels, const S* smoothing, const S* dloss, S* loss) {
  constexpr int threads = cross_entropy_threads<classes>;
  const Index row = blockIdx.x;
  const int label = labels[row], first = static_cast<int>(threadIdx.x);
  S* z = logits + row * stride;
  if (label == ignored_label) {  // the whole block
    if (wants_gradient) {
      for (int c = first; c < stride; c += threads) z[c] = 0;
    }
    if (first == 0) loss[row] = 0;
    return;
  }
  const S labelled = z[label];  // read before any barrier, overwritten after them
  ExpSum<S> own;
  S sums[2] = {};  // of exponentials, of logits
  for (int c = first; c < classes; c += threads) {
    own.add(z[c]);
    if (smooths) sums[1] += z[c];
  }
  const S highest = block_max<threads>(own.highest);
  sums[0] = own.sum != 0 ? own.sum * std::exp(own.highest - highest) : S(0);  // some threads have no columns
  block_sum<threads>(sums);
  const S log_sum = highest + std::log(sums[0]);
  const S smooth = smooths ? *smoothing : S(0);
  if (first == 0) {
    loss[row] = log_sum - labelled + (smooths ? smooth * (labelled - sums[1] / S(classes)) : S(0));
  }
  if (!wants_gradient) return;
  const S scale = dloss[row], uniform = smooth / S(classes);
  for (int c = first; c < stride; c += threads) {
    const S target = (c == label ? S(1) - smooth : S(0)) + uniform;
    z[c] = c < classes ? (std::exp(z[c] - log_sum) - target) * scale : S(0);
  }
}

}  // namespace detail

/// loss = log sum exp(logits) - logits[label] of each row, 0 where the label is -100; unless dloss is null, the logits
/// become dloss * (softmax(logits) - onehot(label)). With smoothing (null: none) as in ops/cross_entropy.hpp.
///
/// Shapes  logits (rows, stride), of which columns from `classes` on are padding and get no gradient; labels, dloss,
///         loss (rows); smoothing (1)
template <class S, int classes, int stride = classes>
void cross_entropy(cudaStream_t stream, S* logits, const std::int32_t* labels, const S* smoothing, const S* dloss,
                   S* loss, Index rows) {
  static_assert(stride >= classes);
  const auto start = [&](auto kernel) {
    launch(stream, kernel, blocks_for(rows, 1), detail::cross_entropy_threads<classes>, logits, labels, smoothing,
           dloss, loss);
  };
  if (smoothing) {
    start(dloss ? detail::cross_entropy_kernel<S, classes, stride, true, true>
                : detail::cross_entropy_kernel<S, classes, stride, true, false>);
  } else {
    start(dloss ? detail::cross_entropy_kernel<S, classes, stride, false, true>
                : detail::cross_entropy_kernel<S, classes, stride, false, false>);
  }
}

}  // namespace simplx
