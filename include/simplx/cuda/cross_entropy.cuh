// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/cross_entropy.cuh
/// Cross-entropy of ops/cross_entropy.hpp: the loss of each row, and its pull-back.
///
/// A block has a row. Forward reads the logits once, for maximum and sum together (a sum over what has been seen,
/// scaled anew when a larger logit comes), and saves the logarithm of the sum, so that backward needs one pass too.

#include <simplx/core/context.hpp>
#include <simplx/cuda/bfloat16_values.cuh>
#include <simplx/cuda/number.cuh>
#include <simplx/cuda/reduce.cuh>

#include <cmath>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

template <int classes>
inline constexpr int cross_entropy_threads = classes > 4096 ? 1024 : classes > 512 ? 256 : 128;

template <class S, int classes>
__global__ void __launch_bounds__(cross_entropy_threads<classes>)
    cross_entropy_kernel(const S* logits, const std::int32_t* labels, One<S> smoothing, S* loss, S* log_sum_exp) {
  constexpr int threads = cross_entropy_threads<classes>;
  const Index row = blockIdx.x;
  const int first = static_cast<int>(threadIdx.x);
  const S* z = logits + row * classes;
  ExpSum<S> own;
  S sums[2] = {};  // of exponentials, of logits
  for (int c = first; c < classes; c += threads) {
    const S logit = z[c];
    own.add(logit);
    sums[1] += logit;
  }
  const S highest = block_max<threads>(own.highest);
  sums[0] = own.below(highest);
  block_sum<threads>(sums);
  if (first != 0) return;
  const int label = labels[row];
  const S log_sum = highest + std::log(sums[0]), smooth = *smoothing;
  const S gained = smooth != 0 ? smooth * (z[label < 0 ? 0 : label] - sums[1] / S(classes)) : S(0);
  log_sum_exp[row] = log_sum;
  loss[row] = label == ignored_label ? S(0) : log_sum - z[label] + gained;
}

template <class S, int classes, Write mode, Index stride, class DLogit>
__global__ void __launch_bounds__(cross_entropy_threads<classes>)
    cross_entropy_backward_kernel(const S* logits, const std::int32_t* labels, One<S> smoothing, const S* log_sum_exp,
                                  const S* dloss, DLogit* dlogits) {
  constexpr int threads = cross_entropy_threads<classes>;
  const Index row = blockIdx.x;
  const int label = labels[row];
  const bool labelled = label != ignored_label;
  const S log_sum = log_sum_exp[row], scale = labelled ? dloss[row] : S(0);
  const S uniform = *smoothing / S(classes), certain = S(1) - *smoothing;
  const S* const z = logits + row * classes;
  DLogit* const dz = dlogits + row * stride;
  for (int begin = 0; begin < classes; begin += threads) {
    const int c = begin + static_cast<int>(threadIdx.x);
    const bool inside = c < classes;
    const S target = (c == label ? certain : S(0)) + uniform;
    const S slope = labelled && inside ? (std::exp(z[c] - log_sum) - target) * scale : S(0);
    if constexpr (stride != classes) __syncthreads();  // over the logits of other threads, once they are read
    if (inside) write<mode>(dz[c], slope);
  }
}

}  // namespace detail

/// loss = log sum exp(logits) - logits[label] of each row, 0 where the label is -100; with smoothing s it gains
/// s (logits[label] - mean logits).
///
/// Shapes  logits (rows, classes); labels, loss, log_sum_exp (rows); smoothing (1)
/// Cost    reads the logits once
template <class S, int classes>
void cross_entropy(cudaStream_t stream, const S* logits, const std::int32_t* labels, One<S> smoothing, S* loss,
                   S* log_sum_exp, Index rows) {
  launch(stream, detail::cross_entropy_kernel<S, classes>, blocks_for(rows, 1), detail::cross_entropy_threads<classes>,
         logits, labels, smoothing, loss, log_sum_exp);
}

/// dlogits = dloss * (softmax(logits) - target), target = (1 - s) onehot(label) + s / classes.
///
/// Shapes  as forward; dloss (rows); dlogits as logits, stored or added to; bfloat16 is stored, its rows `stride`
///         numbers apart. It may be the logits' own memory if its rows begin where theirs do
/// Cost    reads the logits once, writes as much
template <class S, int classes, Write mode = Write::store, Index stride = classes, class DLogit>
void cross_entropy_backward(cudaStream_t stream, const S* logits, const std::int32_t* labels, One<S> smoothing,
                            const S* log_sum_exp, const S* dloss, DLogit* dlogits, Index rows) {
  launch(stream, detail::cross_entropy_backward_kernel<S, classes, mode, stride, DLogit>, blocks_for(rows, 1),
         detail::cross_entropy_threads<classes>, logits, labels, smoothing, log_sum_exp, dloss, dlogits);
}

}  // namespace simplx
