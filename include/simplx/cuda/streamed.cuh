// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/streamed.cuh
/// How ops that remember run on a GPU when tokens come one after the other: streamed_on<Cuda<p>, "name">. All others
/// run as generate/streamed.hpp says.
///
/// Attention remembers keys and values, in bfloat16 where tensor cores would round them; of a window, little more than
/// it has. A projection of keys (SAS) is computed, once for each new token. Folded into the query, as on the CPU, it
/// would save the room of the keys, but each query would have `heads` times as many columns to multiply with every x.

#include <simplx/cuda/attention_step.cuh>
#include <simplx/cuda/ops.cuh>
#include <simplx/generate/streamed_graph.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace gpu {

/// The sequences of a chunk, equally many rows of each, as what attends takes them.
template <class F>
StepSequences step_sequences(const F& f, const StreamMemory<typename F::Scalar>& memory) {
  const Index count = f.context.segments.count;
  return {count, f.rows() / count, f.context.past, memory.sequences};
}

/// A column of shift(x, by): row t lies in the ring where row t - by lay before. Cells are (sequences, cols).
template <class S>
struct TurnRing {
  StepSequences sequences;
  Index by, cols;
  const S* from;
  S* ring;      ///< of a stream's first sequence
  Index apart;  ///< elements from that of one sequence to that of the next
  S* to;
  __device__ void operator()(Index sequence, Index col) const {
    const Index past = sequences.past[sequence], first = sequence * sequences.rows;
    S* const own = ring + sequences.number[sequence] * apart;
    for (Index row = 0; row < sequences.rows; ++row) {
      S& place = own[(past + row) % by * cols + col];
      const S before = place;
      place = from[(first + row) * cols + col];
      to[(first + row) * cols + col] = before;
    }
  }
};

/// A column of cumulative_sum, which goes on from the sum before. Cells are (sequences, cols).
template <class S>
struct GoOnSumming {
  StepSequences sequences;
  Index cols;
  const S* from;
  S* sums;      ///< of a stream's first sequence
  Index apart;  ///< elements from those of one sequence to those of the next
  S* to;
  __device__ void operator()(Index sequence, Index col) const {
    S& place = sums[sequences.number[sequence] * apart + col];
    S sum = place;
    const Index first = sequence * sequences.rows;
    for (Index row = first; row < first + sequences.rows; ++row) to[row * cols + col] = sum += from[row * cols + col];
    place = sum;
  }
};

}  // namespace gpu

template <Precision p>
struct streamed_on<Cuda<p>, "shift"> : streamed<"shift"> {
  template <class F, class S = typename F::Scalar>
  static void forward(Cuda<p> backend, const F& f, const StreamMemory<S>& memory) {
    constexpr Index cols = F::out_shape.cols, by = op<"shift">::by(F::attributes);
    if constexpr (by == 0) {
      kernels<Cuda<p>, "shift">::forward(backend, f);
    } else {
      const gpu::StepSequences sequences = gpu::step_sequences(f, memory);
      gpu::each_cell(
          gpu::stream_of(f), sequences.count, cols,
          gpu::TurnRing<S>{sequences, by, cols, f.template in<0>(), memory.once, memory.apart, f.out()});
    }
  }
};

template <Precision p>
struct streamed_on<Cuda<p>, "cumulative_sum"> : streamed<"cumulative_sum"> {
  template <class F, class S = typename F::Scalar>
  static void forward(Cuda<p>, const F& f, const StreamMemory<S>& memory) {
    constexpr Index cols = F::out_shape.cols;
    const gpu::StepSequences sequences = gpu::step_sequences(f, memory);
    gpu::each_cell(gpu::stream_of(f), sequences.count, cols,
                   gpu::GoOnSumming<S>{sequences, cols, f.template in<0>(), memory.once, memory.apart, f.out()});
  }
};

namespace gpu {

template <Precision p, AttentionMatrix matrix>
struct attention_streamed_on_device : detail::streamed_attention<matrix> {
  using Op = detail::attention_op<matrix>;
  using Host = detail::streamed_attention<matrix>;
  template <class F>
  using Stored = std::conditional_t<p == Precision::bfloat16, __nv_bfloat16, typename F::Scalar>;
  template <class F>
  static constexpr AttentionSize size = Op::template size<F, false>;
  template <class F>
  static constexpr Index keys = Host::template key_heads<F> * size<F>.key_width;
  template <class F>
  static constexpr Index values = Host::template value_heads<F> * size<F>.value_width;

  template <class F>
  static constexpr bool folds = false;
  template <class F>
  static constexpr Remembered remembers{
      .per_token = ((keys<F> + values<F>) * Index(sizeof(Stored<F>)) + Index(sizeof(typename F::Scalar)) - 1) /
                   Index(sizeof(typename F::Scalar)),
      .most_tokens = step_tokens<size<F>>};
  template <class F>
  static constexpr Index scratch(const StreamRoom& room) {
    return attention_step_parts<size<F>>(room.rows, room.sequences, room.context);
  }
  template <class F, class S = typename F::Scalar>
  static void forward(Cuda<p>, const F& f, const StreamMemory<S>& memory) {
    auto* const stored = reinterpret_cast<Stored<F>*>(memory.stores);
    const Index apart = memory.apart * Index(sizeof(S)) / Index(sizeof(Stored<F>));
    attention_steps<size<F>, Host::template key_heads<F>, Host::template value_heads<F>>(
        stream_of(f), step_sequences(f, memory), memory.capacity, attention_kernels<p, matrix>::operands(f),
        AttentionStores<Stored<F>>{stored, stored + keys<F> * memory.capacity, apart}, place_of<Cuda<p>>(f),
        memory.scratch);
  }
};

}  // namespace gpu

template <Precision p>
struct streamed_on<Cuda<p>, "softmax_attention"> : gpu::attention_streamed_on_device<p, AttentionMatrix::softmax> {};
template <Precision p>
struct streamed_on<Cuda<p>, "skip_init_attention"> : gpu::attention_streamed_on_device<p, AttentionMatrix::skip_init> {
};
template <Precision p>
struct streamed_on<Cuda<p>, "shaped_attention"> : gpu::attention_streamed_on_device<p, AttentionMatrix::shaped> {};

}  // namespace simplx
