// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/softmax.cuh
/// Softmax, its logarithm and log-sum-exp over the columns of each row, with the equations of ops/softmax.hpp.
///
/// A block has a row of any width: one pass for the largest element and the sum, one to write.

#include <simplx/cuda/cells.cuh>
#include <simplx/cuda/cuda.cuh>
#include <simplx/ops/softmax.hpp>

#include <cmath>

namespace simplx::inline SIMPLX_TARGET {

namespace gpu {

/// Threads for a row that is read several times.
template <Index cols>
inline constexpr int row_threads = cols > 4096 ? 1024 : cols > 256 ? 256 : warp_lanes;

template <class S, int threads, bool logarithm>
__global__ void __launch_bounds__(threads) softmax_kernel(const S* x, S* y, S* log_sum_exp, Index cols) {
  const Index row = blockIdx.x;
  ExpSum<S> own;
  for (Index c = threadIdx.x; c < cols; c += threads) own.add(x[row * cols + c]);
  const ExpSum<S> all = block_exp_sum<threads>(own);
  const S log_sum = std::log(all.sum), share = S(1) / all.sum;
  const S shift = all.highest > minus_infinity<S> ? all.highest : S(0);
  for (Index c = threadIdx.x; c < cols; c += threads) {
    const S value = x[row * cols + c];
    y[row * cols + c] = logarithm ? (value - all.highest) - log_sum : std::exp(value - shift) * share;
  }
  if (log_sum_exp && threadIdx.x == 0) {  // beside infinity nothing counts, and its own difference is NaN
    log_sum_exp[row] = all.highest == -minus_infinity<S> ? all.highest : all.highest + log_sum;
  }
}

template <class S, int threads, bool logarithm, Write mode>
__global__ void __launch_bounds__(threads) softmax_backward_kernel(const S* y, const S* dy, S* dx, Index cols) {
  const Index row = blockIdx.x;
  S sum = 0;
  for (Index c = threadIdx.x; c < cols; c += threads) {
    sum += dy[row * cols + c] * (logarithm ? S(1) : y[row * cols + c]);
  }
  sum = block_sum<threads>(sum);
  for (Index c = threadIdx.x; c < cols; c += threads) {
    const S value = y[row * cols + c], up = dy[row * cols + c];
    write<mode>(dx[row * cols + c], logarithm ? up - std::exp(value) * sum : value * (up - sum));
  }
}

/// The pull-back of log_sum_exp: the saved softmax, each row times its gradient.
template <Write mode, class S>
struct ScaleRow {
  const S *softmax, *dy;
  Index cols;
  S* dx;
  __device__ void operator()(Index row, Index col) const {
    write<mode>(dx[row * cols + col], softmax[row * cols + col] * dy[row]);
  }
};

/// y = softmax(x) or its logarithm, over columns; log sum exp of each row too unless it is null.
///
/// Shapes  x, y (rows, cols); log_sum_exp (rows)
template <class S, Index cols, bool logarithm = false>
void softmax(cudaStream_t stream, const S* x, S* y, S* log_sum_exp, Index rows) {
  constexpr int threads = row_threads<cols>;
  launch(stream, softmax_kernel<S, threads, logarithm>, blocks_for(rows, 1), threads, x, y, log_sum_exp, cols);
}

/// dx from y, the result.
template <class S, Index cols, bool logarithm, Write mode>
void softmax_backward(cudaStream_t stream, const S* y, const S* dy, S* dx, Index rows) {
  constexpr int threads = row_threads<cols>;
  launch(stream, softmax_backward_kernel<S, threads, logarithm, mode>, blocks_for(rows, 1), threads, y, dy, dx, cols);
}

}  // namespace gpu

template <Precision p>
struct kernels<Cuda<p>, "softmax"> : op<"softmax"> {
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    using S = typename F::Scalar;
    gpu::softmax<S, F::out_shape.cols>(gpu::stream_of(f), f.template in<0>(), f.out(), static_cast<S*>(nullptr),
                                       f.rows());
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    gpu::softmax_backward<typename F::Scalar, F::out_shape.cols, false, F::template write<0>>(
        gpu::stream_of(f), f.out(), f.out_grad(), f.template grad<0>(), f.rows());
  }
};

template <Precision p>
struct kernels<Cuda<p>, "log_softmax"> : op<"log_softmax"> {
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    using S = typename F::Scalar;
    gpu::softmax<S, F::out_shape.cols, true>(gpu::stream_of(f), f.template in<0>(), f.out(), static_cast<S*>(nullptr),
                                             f.rows());
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    gpu::softmax_backward<typename F::Scalar, F::out_shape.cols, true, F::template write<0>>(
        gpu::stream_of(f), f.out(), f.out_grad(), f.template grad<0>(), f.rows());
  }
};

template <Precision p>
struct kernels<Cuda<p>, "log_sum_exp"> : op<"log_sum_exp"> {
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    gpu::softmax<typename F::Scalar, F::template shape<0>.cols>(gpu::stream_of(f), f.template in<0>(), f.saved(),
                                                                f.out(), f.rows());
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    constexpr Index cols = F::template shape<0>.cols;
    using Rule = gpu::ScaleRow<F::template write<0>, typename F::Scalar>;
    gpu::each_cell(gpu::stream_of(f), f.rows(), cols, Rule{f.saved(), f.out_grad(), cols, f.template grad<0>()});
  }
};

}  // namespace simplx
