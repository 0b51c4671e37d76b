// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/sequences.cuh
/// Sums and means over the tokens of each sequence, and rows of sequences for each of their tokens, as
/// ops/sequences.hpp.

#include <simplx/cuda/rows.cuh>
#include <simplx/ops/sequences.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace gpu {

/// to_s = the sum of from_t, or their mean. Cells are (sequences, cols).
///
/// Cost    a thread for each cell: of few long sequences most of a device waits
template <Write mode, bool mean, class S>
struct SumOfSequence {
  Sequences sequences;
  Index cols;
  const S* from;
  S* to;
  __device__ void operator()(Index number, Index col) const {
    const auto sequence = sequences[number];
    S total = 0;
    const Index tokens = sequence.end - sequence.begin, together = detail::rows_of_part(tokens);
    for (Index first = sequence.begin; first < sequence.end; first += together) {
      S part = 0;
      for (Index t = first; t < first + together && t < sequence.end; ++t) part += from[t * cols + col];
      total += part;
    }
    write<mode>(to[number * cols + col], mean && tokens > 0 ? total / static_cast<S>(tokens) : total);
  }
};

/// to_t = from_s, or its share of a mean. Cells are (tokens, cols).
template <Write mode, bool mean, class S>
struct RepeatOverSequence {
  Sequences sequences;
  Index cols;
  const S* from;
  S* to;
  __device__ void operator()(Index token, Index col) const {
    const auto sequence = sequences.of(token);
    const S x = from[sequence.number * cols + col];
    write<mode>(to[token * cols + col], mean ? x / static_cast<S>(sequence.end - sequence.begin) : x);
  }
};

template <Write mode, class F, class S>
void sum_of_sequence(const F& f, const S* from, S* to) {
  constexpr bool mean = detail::sequence_op::is_mean(F::attributes);
  const Sequences sequences{.offsets = f.context.segments.offsets, .count = f.context.segments.count};
  each_cell(stream_of(f), sequences.count, F::out_shape.cols,
            SumOfSequence<mode, mean, S>{sequences, F::out_shape.cols, from, to});
}
template <Write mode, class F, class S>
void repeat_over_sequence(const F& f, const S* from, S* to) {
  constexpr bool mean = detail::sequence_op::is_mean(F::attributes);
  const Sequences sequences{.offsets = f.context.segments.offsets, .count = f.context.segments.count};
  each_cell(stream_of(f), f.context.rows[static_cast<int>(Axis::tokens)], F::out_shape.cols,
            RepeatOverSequence<mode, mean, S>{sequences, F::out_shape.cols, from, to});
}

}  // namespace gpu

template <Precision p>
struct kernels<Cuda<p>, "sum_of_sequence"> : op<"sum_of_sequence"> {
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    gpu::sum_of_sequence<Write::store>(f, f.template in<0>(), f.out());
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    gpu::repeat_over_sequence<F::template write<0>>(f, f.out_grad(), f.template grad<0>());
  }
};

template <Precision p>
struct kernels<Cuda<p>, "repeat_over_sequence"> : op<"repeat_over_sequence"> {
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    gpu::repeat_over_sequence<Write::store>(f, f.template in<0>(), f.out());
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    gpu::sum_of_sequence<F::template write<0>>(f, f.out_grad(), f.template grad<0>());
  }
};

}  // namespace simplx
