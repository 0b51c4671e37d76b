// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/streamed.cuh
/// How ops that remember run on a GPU when tokens come one after the other: streamed_on<Cuda<p>, "name">. All others
/// run as generate/streamed.hpp says.
///
/// Attention remembers keys and values, in bfloat16 where tensor cores would round them. A projection of keys (SAS) is
/// computed, once for each new token. Folded into the query, as on the CPU, it would save the room of the keys, but
/// each query would have `heads` times as many columns to multiply with every x.

#include <simplx/cuda/attention_step.cuh>
#include <simplx/cuda/ops.cuh>
#include <simplx/generate/streamed_graph.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace gpu {

/// A column of shift(x, by): row t lies in the ring where row t - by lay before.
template <class S>
struct TurnRing {
  const Index* past;
  Index rows, by, cols;
  const S* from;
  S *ring, *to;
  __device__ void operator()(Index, Index col) const {
    for (Index row = 0; row < rows; ++row) {
      S& place = ring[(*past + row) % by * cols + col];
      const S before = place;
      place = from[row * cols + col];
      to[row * cols + col] = before;
    }
  }
};

/// A column of cumulative_sum, which goes on from the sum before.
template <class S>
struct GoOnSumming {
  Index rows, cols;
  const S* from;
  S *sums, *to;
  __device__ void operator()(Index, Index col) const {
    S sum = sums[col];
    for (Index row = 0; row < rows; ++row) to[row * cols + col] = sum += from[row * cols + col];
    sums[col] = sum;
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
      gpu::each_cell(
          gpu::stream_of(f), 1, cols,
          gpu::TurnRing<S>{f.context.gpu->past(), f.rows(), by, cols, f.template in<0>(), memory.once, f.out()});
    }
  }
};

template <Precision p>
struct streamed_on<Cuda<p>, "cumulative_sum"> : streamed<"cumulative_sum"> {
  template <class F, class S = typename F::Scalar>
  static void forward(Cuda<p>, const F& f, const StreamMemory<S>& memory) {
    constexpr Index cols = F::out_shape.cols;
    gpu::each_cell(gpu::stream_of(f), 1, cols,
                   gpu::GoOnSumming<S>{f.rows(), cols, f.template in<0>(), memory.once, f.out()});
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
                   Index(sizeof(typename F::Scalar))};
  template <class F>
  static constexpr Index scratch(Index rows, Index context) {
    return attention_step_parts<size<F>>(rows, context);
  }
  template <class F, class S = typename F::Scalar>
  static void forward(Cuda<p>, const F& f, const StreamMemory<S>& memory) {
    auto* const stored = reinterpret_cast<Stored<F>*>(memory.stores);
    attention_steps<size<F>, Host::template key_heads<F>, Host::template value_heads<F>>(
        stream_of(f), f.context.gpu->past(), f.rows(), memory.capacity, attention_kernels<p, matrix>::operands(f),
        AttentionStores<Stored<F>>{stored, stored + keys<F> * memory.capacity}, place_of<Cuda<p>>(f), memory.scratch);
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
