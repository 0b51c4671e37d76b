// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/cross_entropy.cuh
/// Cross-entropy of ops/cross_entropy.hpp: the loss of each row, and its pull-back.
///
/// A block has a row. Forward reads the logits once, for maximum and sum together (a sum over what has been seen,
/// scaled anew when a larger logit comes), and saves both, so that backward needs one pass too: apart, for beside a
/// maximum far from 0 the logarithm of the sum would be rounded away. A thread takes 16 bytes of logits at a time, if
/// rows are whole such parts.
///
/// In a step of training nobody reads the losses before backward has run, which therefore computes them as well: its
/// second pass over a row should find the logits in the device's cache.

#include <simplx/core/context.hpp>
#include <simplx/cuda/bfloat16_values.cuh>
#include <simplx/cuda/number.cuh>
#include <simplx/cuda/reduce.cuh>

#include <cmath>
#include <numeric>

namespace simplx::inline SIMPLX_TARGET::gpu {

/// Logits of a row, which a block computes with; rows lie `stride` apart.
template <class S, int classes, int stride, class Logit>
struct RowOfLogits {
  static constexpr int together = std::gcd(stride, static_cast<int>(16 / sizeof(Logit)));  ///< that a thread takes
  static constexpr int parts = (classes + together - 1) / together;
  static_assert(parts * together <= stride && stride - classes < static_cast<int>(16 / sizeof(Logit)),
                "parts end within the row");
  static constexpr int threads = parts > 8192 ? 1024 : parts > 512 ? 256 : 128;
  /// Of a block that goes over its row twice: two on a multiprocessor have 27 MB of GPT-2's logits in bfloat16 in work,
  /// of an H100's cache of 50 MB.
  static constexpr int threads_of_both = parts > 512 ? 768 : 128;
  template <class T>
  using Part = Neighbours<T, together>;

  const Logit* z;
  std::int32_t label;
  S smoothing;

  __device__ static bool inside(int part, int k) { return classes % together == 0 || part * together + k < classes; }
  /// What lies between the last class and the next row may not be initialised.
  __device__ static Part<Logit> read(const Logit* row, int part) {
    if (classes % together == 0 || part + 1 < parts) return neighbours<together>(row)[part];
    Part<Logit> last{};
    for (int k = 0; k < classes % together; ++k) last.of[k] = row[part * together + k];
    return last;
  }

  /// softmax(z) = exp(z - highest - log_sum), and the loss.
  struct Loss {
    S loss, highest, log_sum;
  };
  /// The same for each thread, all of which have read their logits when it returns.
  template <int team>
  __device__ Loss loss() const {
    const S own_logit = wide(z[label < 0 ? 0 : label]);
    ExpSum<S> own;
    S sums[2] = {};  // of exponentials, of logits
    for (int i = static_cast<int>(threadIdx.x); i < parts; i += team) {
      const Part<Logit> part = read(z, i);
      S numbers[together];
      SIMPLX_UNROLL
      for (int k = 0; k < together; ++k) {
        numbers[k] = inside(i, k) ? wide(part.of[k]) : minus_infinity<S>;
        if (smoothing != 0 && inside(i, k)) sums[1] += numbers[k];
      }
      own.add(numbers);
    }
    const S highest = block_max<team>(own.highest);
    sums[0] = own.below(highest);
    block_sum<team>(sums);
    const S log_sum = std::log(sums[0]);
    if (label == ignored_label) return {S(0), highest, log_sum};
    const S smoothed = smoothing != 0 ? smoothing * (own_logit - sums[1] / S(classes)) : S(0);
    return {log_sum + (highest - own_logit) + smoothed, highest, log_sum};
  }

  /// dz of the row may lie where z does. It begins with the end of the row: what was read last is the likeliest to be
  /// in the cache still.
  template <int team, Write mode, class DLogit>
  __device__ void pull_back(S highest, S log_sum, S dloss, DLogit* dz) const {
    const bool labelled = label != ignored_label;
    const S scale = std::exp(-log_sum) * dloss;  // of exp(z - highest)
    const S uniform = smoothing / S(classes) * dloss, certain = (S(1) - smoothing) * dloss;
    for (int turn = (parts - 1) / team; turn >= 0; --turn) {
      const int i = turn * team + static_cast<int>(threadIdx.x);
      if (i >= parts) continue;
      Neighbours<DLogit, together> slopes{};
      if constexpr (mode == Write::accumulate) {
        static_assert(stride == classes);
        slopes = neighbours<together>(dz)[i];
      }
      const Part<Logit> part = read(z, i);
      SIMPLX_UNROLL
      for (int k = 0; k < together; ++k) {
        const S target = (i * together + k == label ? certain : S(0)) + uniform;
        const S slope = std::exp(wide(part.of[k]) - highest) * scale - target;
        write<mode>(slopes.of[k], labelled ? slope : S(0));  // whatever the logits are
      }
      neighbours<together>(dz)[i] = slopes;
    }
  }
};

template <class Row, class S, int stride, class Logit>
__device__ Row row_of_logits(const Logit* logits, const std::int32_t* labels, One<S> smoothing) {
  const Index row = blockIdx.x;
  return {logits + row * stride, labels[row], *smoothing};
}

template <class S, int classes, int stride, class Logit>
__global__ void __launch_bounds__(RowOfLogits<S, classes, stride, Logit>::threads)
    cross_entropy_kernel(const Logit* logits, const std::int32_t* labels, One<S> smoothing, S* loss, S* saved) {
  using Row = RowOfLogits<S, classes, stride, Logit>;
  const Row row = row_of_logits<Row, S, stride>(logits, labels, smoothing);
  const auto found = row.template loss<Row::threads>();
  if (threadIdx.x != 0) return;
  loss[blockIdx.x] = found.loss;
  S* const own = saved + 2 * static_cast<Index>(blockIdx.x);
  own[0] = found.highest, own[1] = found.log_sum;
}

template <class S, int classes, int stride, Write mode, class Logit, class DLogit>
__global__ void __launch_bounds__(RowOfLogits<S, classes, stride, Logit>::threads)
    cross_entropy_backward_kernel(const Logit* logits, const std::int32_t* labels, One<S> smoothing,
                                  const S* saved, const S* dloss, DLogit* dlogits) {
  using Row = RowOfLogits<S, classes, stride, Logit>;
  const Row row = row_of_logits<Row, S, stride>(logits, labels, smoothing);
  const Index at = blockIdx.x;
  row.template pull_back<Row::threads, mode>(saved[2 * at], saved[2 * at + 1], dloss[at], dlogits + at * stride);
}

template <class S, int classes, int stride, Write mode, class Logit, class DLogit>
__global__ void __launch_bounds__(RowOfLogits<S, classes, stride, Logit>::threads_of_both, 2)
    cross_entropy_and_backward_kernel(const Logit* logits, const std::int32_t* labels, One<S> smoothing,
                                      const S* dloss, S* loss, DLogit* dlogits) {
  using Row = RowOfLogits<S, classes, stride, Logit>;
  const Row row = row_of_logits<Row, S, stride>(logits, labels, smoothing);
  const S slope = dloss[blockIdx.x];
  const auto found = row.template loss<Row::threads_of_both>();
  if (threadIdx.x == 0) loss[blockIdx.x] = found.loss;
  row.template pull_back<Row::threads_of_both, mode>(found.highest, found.log_sum, slope,
                                                     dlogits + static_cast<Index>(blockIdx.x) * stride);
}

/// loss = log sum exp(logits) - logits[label] of each row, 0 where the label is -100; with smoothing s it gains
/// s (logits[label] - mean logits).
///
/// Shapes  logits (rows, classes), of S or bfloat16, on 16 bytes, their rows `stride` apart; labels, loss (rows);
///         saved (rows, 2); smoothing (1)
/// Cost    reads the logits once
template <class S, int classes, int stride = classes, class Logit>
void cross_entropy(cudaStream_t stream, const Logit* logits, const std::int32_t* labels, One<S> smoothing, S* loss,
                   S* saved, Index rows) {
  launch(stream, cross_entropy_kernel<S, classes, stride, Logit>, blocks_for(rows, 1),
         RowOfLogits<S, classes, stride, Logit>::threads, logits, labels, smoothing, loss, saved);
}

/// dlogits = dloss * (softmax(logits) - target), target = (1 - s) onehot(label) + s / classes.
///
/// Shapes  as forward; dloss (rows); dlogits as logits, on 16 bytes, stored or added to; it may be the logits' own
///         memory if it is of their type. bfloat16 is stored, never added to, and so are rows whose stride is not
///         `classes`; between the classes of two such rows numbers are written that mean nothing
/// Cost    reads the logits once, writes as much
template <class S, int classes, Write mode = Write::store, int stride = classes, class Logit, class DLogit>
void cross_entropy_backward(cudaStream_t stream, const Logit* logits, const std::int32_t* labels, One<S> smoothing,
                            const S* saved, const S* dloss, DLogit* dlogits, Index rows) {
  launch(stream, cross_entropy_backward_kernel<S, classes, stride, mode, Logit, DLogit>, blocks_for(rows, 1),
         RowOfLogits<S, classes, stride, Logit>::threads, logits, labels, smoothing, saved, dloss, dlogits);
}

/// The losses and dlogits by one kernel; nothing is saved.
///
/// Shapes  as backward
/// Cost    that of backward alone, if the cache holds the rows that are in work
template <class S, int classes, Write mode = Write::store, int stride = classes, class Logit, class DLogit>
void cross_entropy_and_backward(cudaStream_t stream, const Logit* logits, const std::int32_t* labels, One<S> smoothing,
                                const S* dloss, S* loss, DLogit* dlogits, Index rows) {
  launch(stream, cross_entropy_and_backward_kernel<S, classes, stride, mode, Logit, DLogit>, blocks_for(rows, 1),
         RowOfLogits<S, classes, stride, Logit>::threads_of_both, logits, labels, smoothing, dloss, loss, dlogits);
}

}  // namespace simplx::gpu
