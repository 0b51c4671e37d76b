// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/matrices.cuh
/// Transposes, products summed over rows and a small product for each row, as ops/transpose.hpp and
/// ops/batched_matmul.hpp.

#include <simplx/cuda/cells.cuh>
#include <simplx/cuda/cuda.cuh>
#include <simplx/ops/batched_matmul.hpp>
#include <simplx/ops/transpose.hpp>

namespace simplx::inline SIMPLX_TARGET {

template <Precision p>
struct kernels<Cuda<p>, "transpose"> : op<"transpose"> {
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    constexpr Shape y = F::out_shape;
    gpu::move_cells<Write::store>(gpu::stream_of(f), y.rows, y.cols, f.template in<0>(), {.row = 1, .col = y.rows},
                                  f.out(), {y.cols});
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    constexpr Shape x = F::template shape<0>;
    gpu::move_cells<Write::accumulate>(gpu::stream_of(f), x.rows, x.cols, f.out_grad(), {.row = 1, .col = x.rows},
                                       f.template grad<0>(), {x.cols});
  }
};

template <Precision p>
struct kernels<Cuda<p>, "contract"> : op<"contract"> {
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    constexpr Shape y = F::out_shape;
    Cuda<p>::multiply(f.context,
                      {.rows = y.rows, .cols = y.cols, .inner = f.template rows_in<0>(), .transpose_a = true},
                      f.template in<0>(), f.template in<1>(), f.out());
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    constexpr Shape y = F::out_shape;
    const Index rows = f.template rows_in<0>();
    if constexpr (F::template write<0> != Write::skip) {
      Cuda<p>::multiply(f.context,
                        {.rows = rows, .cols = y.rows, .inner = y.cols, .transpose_b = true,
                         .write = F::template write<0>},
                        f.template in<1>(), f.out_grad(), f.template grad<0>());
    }
    if constexpr (F::template write<1> != Write::skip) {
      Cuda<p>::multiply(f.context,
                        {.rows = rows, .cols = y.cols, .inner = y.rows, .write = F::template write<1>},
                        f.template in<0>(), f.out_grad(), f.template grad<1>());
    }
  }
};

namespace gpu {

/// A matrix in each row of another: where its row begins, and where its cells lie.
template <class S>
struct RowMatrix {
  const S* first;
  Index width;
  Strides at;
};

/// The product of the matrices in a row. Cells are (rows, elements of the product).
template <Write mode, class S>
struct MultiplyInRow {
  RowMatrix<S> a, b;
  Index inner, cols, width;  ///< cols of the product, width its elements
  S* y;
  __device__ void operator()(Index row, Index element) const {
    const Index i = element / cols, j = element % cols;
    const S *left = a.first + row * a.width, *right = b.first + row * b.width;
    S total = 0;
    for (Index k = 0; k < inner; ++k) total += left[a.at(i, k)] * right[b.at(k, j)];
    write<mode>(y[row * width + element], total);
  }
};

}  // namespace gpu

template <Precision p>
struct kernels<Cuda<p>, "batched_matmul"> : op<"batched_matmul"> {
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    using Is = op<"batched_matmul">::Size<F>;
    multiply<Write::store, Is::rows, Is::inner, Is::cols>(f, f.template in<0>(), {Is::inner}, f.template in<1>(),
                                                          {Is::cols}, f.out());
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    using Is = op<"batched_matmul">::Size<F>;
    multiply<F::template write<0>, Is::rows, Is::cols, Is::inner>(
        f, f.out_grad(), {Is::cols}, f.template in<1>(), {.row = 1, .col = Is::cols}, f.template grad<0>());
    multiply<F::template write<1>, Is::inner, Is::rows, Is::cols>(
        f, f.template in<0>(), {.row = 1, .col = Is::inner}, f.out_grad(), {Is::cols}, f.template grad<1>());
  }

 private:
  /// y = a b in each row; a is (rows, inner), b (inner, cols).
  template <Write mode, Index rows, Index inner, Index cols, class F, class S>
  static void multiply(const F& f, const S* a, gpu::Strides a_at, const S* b, gpu::Strides b_at, S* y) {
    if constexpr (mode != Write::skip) {
      gpu::each_cell(
          gpu::stream_of(f), f.rows(), rows * cols,
          gpu::MultiplyInRow<mode, S>{{a, rows * inner, a_at}, {b, inner * cols, b_at}, inner, cols, rows * cols, y});
    }
  }
};

}  // namespace simplx
