// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/cross_entropy.cuh
/// Cross-entropy of ops/cross_entropy.hpp: the loss of each row, and its pull-back.
///
/// A block has a row. Forward reads the logits once, for maximum and sum together (a sum over what has been seen,
/// scaled anew when a larger logit comes), and saves the logarithm of the sum, so that backward needs one pass too. A
/// thread takes 16 bytes of logits at a time, if the classes are whole such parts.

#include <simplx/core/context.hpp>
#include <simplx/cuda/bfloat16_values.cuh>
#include <simplx/cuda/number.cuh>
#include <simplx/cuda/reduce.cuh>

#include <cmath>
#include <numeric>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// Logits that a thread takes at a time.
template <class Logit, int classes>
inline constexpr int logits_together = std::gcd(classes, static_cast<int>(16 / sizeof(Logit)));

template <int parts>
inline constexpr int cross_entropy_threads = parts > 8192 ? 1024 : parts > 512 ? 256 : 128;
template <class Logit, int classes>
inline constexpr int threads_of_logits = cross_entropy_threads<classes / logits_together<Logit, classes>>;

template <class S, int classes, class Logit>
__global__ void __launch_bounds__(threads_of_logits<Logit, classes>)
    cross_entropy_kernel(const Logit* logits, const std::int32_t* labels, One<S> smoothing, S* loss, S* log_sum_exp) {
  constexpr int threads = threads_of_logits<Logit, classes>, each = logits_together<Logit, classes>;
  const Index row = blockIdx.x;
  const int first = static_cast<int>(threadIdx.x);
  const Logit* z = logits + row * classes;
  ExpSum<S> own;
  S sums[2] = {};  // of exponentials, of logits
  for (int i = first; i < classes / each; i += threads) {
    const auto part = neighbours<each>(z)[i];
    S numbers[each];
    SIMPLX_UNROLL
    for (int k = 0; k < each; ++k) sums[1] += numbers[k] = wide(part.of[k]);
    own.add(numbers);
  }
  const S highest = block_max<threads>(own.highest);
  sums[0] = own.below(highest);
  block_sum<threads>(sums);
  if (first != 0) return;
  const int label = labels[row];
  const S log_sum = highest + std::log(sums[0]), smooth = *smoothing, own_logit = wide(z[label < 0 ? 0 : label]);
  log_sum_exp[row] = log_sum;
  loss[row] = label == ignored_label ? S(0) : log_sum - own_logit;
  if (smooth != 0 && label != ignored_label) loss[row] += smooth * (own_logit - sums[1] / S(classes));
}

template <class S, int classes, Write mode, class Logit, class DLogit>
__global__ void __launch_bounds__(threads_of_logits<Logit, classes>)
    cross_entropy_backward_kernel(const Logit* logits, const std::int32_t* labels, One<S> smoothing,
                                  const S* log_sum_exp, const S* dloss, DLogit* dlogits) {
  constexpr int threads = threads_of_logits<Logit, classes>, each = logits_together<Logit, classes>;
  const Index row = blockIdx.x;
  const int label = labels[row];
  const bool labelled = label != ignored_label;
  const S log_sum = log_sum_exp[row], scale = labelled ? dloss[row] : S(0);
  const S uniform = *smoothing / S(classes), certain = S(1) - *smoothing;
  const auto* const z = neighbours<each>(logits + row * classes);
  auto* const dz = neighbours<each>(dlogits + row * classes);
  for (int i = static_cast<int>(threadIdx.x); i < classes / each; i += threads) {
    Neighbours<DLogit, each> slopes{};
    if (mode == Write::accumulate) slopes = dz[i];
    const auto part = z[i];
    SIMPLX_UNROLL
    for (int k = 0; k < each; ++k) {
      const S target = (i * each + k == label ? certain : S(0)) + uniform;
      const S slope = (std::exp(wide(part.of[k]) - log_sum) - target) * scale;
      write<mode>(slopes.of[k], labelled ? slope : S(0));  // whatever the logits are
    }
    dz[i] = slopes;
  }
}

}  // namespace detail

/// loss = log sum exp(logits) - logits[label] of each row, 0 where the label is -100; with smoothing s it gains
/// s (logits[label] - mean logits).
///
/// Shapes  logits (rows, classes), of S or bfloat16, on 16 bytes; labels, loss, log_sum_exp (rows); smoothing (1)
/// Cost    reads the logits once
template <class S, int classes, class Logit>
void cross_entropy(cudaStream_t stream, const Logit* logits, const std::int32_t* labels, One<S> smoothing, S* loss,
                   S* log_sum_exp, Index rows) {
  launch(stream, detail::cross_entropy_kernel<S, classes, Logit>, blocks_for(rows, 1),
         detail::threads_of_logits<Logit, classes>, logits, labels, smoothing, loss, log_sum_exp);
}

/// dlogits = dloss * (softmax(logits) - target), target = (1 - s) onehot(label) + s / classes.
///
/// Shapes  as forward; dloss (rows); dlogits as logits, on 16 bytes, stored or added to; it may be the logits' own
///         memory if it is of their type. bfloat16 is stored
/// Cost    reads the logits once, writes as much
template <class S, int classes, Write mode = Write::store, class Logit, class DLogit>
void cross_entropy_backward(cudaStream_t stream, const Logit* logits, const std::int32_t* labels, One<S> smoothing,
                            const S* log_sum_exp, const S* dloss, DLogit* dlogits, Index rows) {
  launch(stream, detail::cross_entropy_backward_kernel<S, classes, mode, Logit, DLogit>, blocks_for(rows, 1),
         detail::threads_of_logits<Logit, classes>, logits, labels, smoothing, log_sum_exp, dloss, dlogits);
}

}  // namespace simplx
