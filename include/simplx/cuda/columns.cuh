// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/columns.cuh
/// Columns taken apart, put together and repeated, as ops/columns.hpp and ops/repeat.hpp.

#include <simplx/cuda/cells.cuh>
#include <simplx/cuda/cuda.cuh>
#include <simplx/ops/columns.hpp>
#include <simplx/ops/repeat.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace gpu {

/// to, (blocks, times, width), gets each block of from, (blocks, width), `times` times. Cells are (blocks, width).
template <Write mode, class S>
struct SpreadCopies {
  const S* from;
  Index times, width;
  S* to;
  __device__ void operator()(Index block, Index col) const {
    const S value = from[block * width + col];
    for (Index k = 0; k < times; ++k) write<mode>(to[(block * times + k) * width + col], value);
  }
};

/// The transpose of that.
template <Write mode, class S>
struct SumCopies {
  const S* from;
  Index times, width;
  S* to;
  __device__ void operator()(Index block, Index col) const {
    S total = 0;
    for (Index k = 0; k < times; ++k) total += from[(block * times + k) * width + col];
    write<mode>(to[block * width + col], total);
  }
};

template <Write mode, class F, class S>
void spread_copies(const F& f, Index cols, const S* from, S* to) {
  constexpr Index times = detail::copies_in(F::attributes).times, width = detail::copies_in(F::attributes).width;
  const Index blocks = f.rows() * (cols / width);
  if constexpr (width == 1) {  // a thread for each copy
    move_cells<mode>(stream_of(f), blocks, times, from, {.row = 1, .col = 0}, to, {times});
  } else if constexpr (mode != Write::skip) {
    each_cell(stream_of(f), blocks, width, SpreadCopies<mode, S>{from, times, width, to});
  }
}
template <Write mode, class F, class S>
void sum_copies(const F& f, Index cols, const S* from, S* to) {
  constexpr Index times = detail::copies_in(F::attributes).times, width = detail::copies_in(F::attributes).width;
  if constexpr (mode != Write::skip) {
    each_cell(stream_of(f), f.rows() * (cols / width), width, SumCopies<mode, S>{from, times, width, to});
  }
}

}  // namespace gpu

template <Precision p>
struct kernels<Cuda<p>, "slice_columns"> : op<"slice_columns"> {
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    constexpr Index count = F::out_shape.cols, width = F::template shape<0>.cols;
    if (f.rows() == 0) return;  // a matrix may be nowhere then
    gpu::move_cells<Write::store>(gpu::stream_of(f), f.rows(), count,
                                  f.template in<0>() + detail::slice_in(F::attributes).begin, {width}, f.out(),
                                  {count});
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    constexpr Index count = F::out_shape.cols, width = F::template shape<0>.cols;
    constexpr Write mode = F::template write<0>;
    if (f.rows() == 0) return;
    if constexpr (mode == Write::store && count < width) {
      Cuda<p>::clear(f.context, f.template grad<0>(), f.rows() * width);
    }
    gpu::move_cells<mode>(gpu::stream_of(f), f.rows(), count, f.out_grad(), {count},
                          f.template grad<0>() + detail::slice_in(F::attributes).begin, {width});
  }
};

template <Precision p>
struct kernels<Cuda<p>, "concatenate"> : op<"concatenate"> {
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    if (f.rows() == 0) return;
    op<"concatenate">::each<F>([&]<int k>(std::integral_constant<int, k>, Index begin) {
      constexpr Index cols = F::template shape<k>.cols;
      gpu::move_cells<Write::store>(gpu::stream_of(f), f.rows(), cols, f.template in<k>(), {cols}, f.out() + begin,
                                    {F::out_shape.cols});
    });
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    if (f.rows() == 0) return;
    op<"concatenate">::each<F>([&]<int k>(std::integral_constant<int, k>, Index begin) {
      constexpr Index cols = F::template shape<k>.cols;
      gpu::move_cells<F::template write<k>>(gpu::stream_of(f), f.rows(), cols, f.out_grad() + begin,
                                            {F::out_shape.cols}, f.template grad<k>(), {cols});
    });
  }
};

template <Precision p>
struct kernels<Cuda<p>, "repeat_columns"> : op<"repeat_columns"> {
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    gpu::spread_copies<Write::store>(f, F::template shape<0>.cols, f.template in<0>(), f.out());
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    gpu::sum_copies<F::template write<0>>(f, F::template shape<0>.cols, f.out_grad(), f.template grad<0>());
  }
};

template <Precision p>
struct kernels<Cuda<p>, "sum_of_repeated"> : op<"sum_of_repeated"> {
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    gpu::sum_copies<Write::store>(f, F::out_shape.cols, f.template in<0>(), f.out());
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    gpu::spread_copies<F::template write<0>>(f, F::out_shape.cols, f.out_grad(), f.template grad<0>());
  }
};

}  // namespace simplx
