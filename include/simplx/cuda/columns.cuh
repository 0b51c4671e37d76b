// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/columns.cuh
/// Columns taken apart, put together and repeated, as ops/columns.hpp and ops/repeat.hpp.

#include <simplx/cuda/cells.cuh>
#include <simplx/cuda/cuda.cuh>
#include <simplx/ops/columns.hpp>
#include <simplx/ops/repeat.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// dx_i = the sum of the copies of x_i, (rows * C, times).
template <Write mode, class S>
struct SumCopies {
  const S* dy;
  Index times;
  S* dx;
  __device__ void operator()(Index i, Index) const {
    S total = 0;
    for (Index k = 0; k < times; ++k) total += dy[i * times + k];
    write<mode>(dx[i], total);
  }
};

}  // namespace detail

template <Precision p>
struct kernels<Cuda<p>, "slice_columns"> : op<"slice_columns"> {
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    constexpr Index count = F::out_shape.cols, width = F::template shape<0>.cols;
    if (f.rows() == 0) return;  // a matrix may be nowhere then
    move_cells<Write::store>(detail::stream_of(f), f.rows(), count, f.template in<0>() + F::attributes.integers[0],
                             {width}, f.out(), {count});
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    constexpr Index count = F::out_shape.cols, width = F::template shape<0>.cols;
    constexpr Write mode = F::template write<0>;
    if (f.rows() == 0) return;
    if constexpr (mode == Write::store && count < width) {
      Cuda<p>::clear(f.context, f.template grad<0>(), f.rows() * width);
    }
    move_cells<mode>(detail::stream_of(f), f.rows(), count, f.out_grad(), {count},
                     f.template grad<0>() + F::attributes.integers[0], {width});
  }
};

template <Precision p>
struct kernels<Cuda<p>, "concatenate"> : op<"concatenate"> {
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    if (f.rows() == 0) return;
    op<"concatenate">::each<F>([&]<int k>(std::integral_constant<int, k>, Index begin) {
      constexpr Index cols = F::template shape<k>.cols;
      move_cells<Write::store>(detail::stream_of(f), f.rows(), cols, f.template in<k>(), {cols}, f.out() + begin,
                               {F::out_shape.cols});
    });
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    if (f.rows() == 0) return;
    op<"concatenate">::each<F>([&]<int k>(std::integral_constant<int, k>, Index begin) {
      constexpr Index cols = F::template shape<k>.cols;
      move_cells<F::template write<k>>(detail::stream_of(f), f.rows(), cols, f.out_grad() + begin,
                                       {F::out_shape.cols}, f.template grad<k>(), {cols});
    });
  }
};

template <Precision p>
struct kernels<Cuda<p>, "repeat_columns"> : op<"repeat_columns"> {
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    constexpr Index times = F::attributes.integers[0];
    move_cells<Write::store>(detail::stream_of(f), f.rows() * F::template shape<0>.cols, times, f.template in<0>(),
                             {.row = 1, .col = 0}, f.out(), {times});
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    using Rule = detail::SumCopies<F::template write<0>, typename F::Scalar>;
    each_cell(detail::stream_of(f), f.rows() * F::template shape<0>.cols, 1,
              Rule{f.out_grad(), F::attributes.integers[0], f.template grad<0>()});
  }
};

}  // namespace simplx
