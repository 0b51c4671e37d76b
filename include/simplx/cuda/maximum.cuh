// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/maximum.cuh
/// The largest elements of rows, of columns or of everything, and their pull-back to the first of equal ones.
///
/// Each is the largest element of a line: elements `step` apart. Blocks have parts of a line, and a second launch of
/// the same kernel takes the largest of the parts.

#include <simplx/cuda/cuda.cuh>
#include <simplx/cuda/reduce.cuh>
#include <simplx/ops/reduce.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace gpu {

/// Lines of a matrix: line l has the elements l * stride + i * step, 0 <= i < size.
struct MatrixLines {
  Index count, stride, size, step;

  /// What (rows, cols) has to be reduced to.
  static constexpr MatrixLines of(Over over, Index rows, Index cols) {
    if (over == Over::columns) return {rows, cols, cols, 1};
    if (over == Over::rows) return {cols, 1, rows, cols};
    return {1, 0, rows * cols, 1};
  }
  /// Parts of a line, by its size alone.
  constexpr Index parts() const { return std::clamp<Index>(size / 8192, 1, 1024); }
  constexpr Index of_part() const { return (size + parts() - 1) / parts(); }
};

template <class S, int threads>
__global__ void __launch_bounds__(threads) maximum_kernel(const S* x, MatrixLines lines, Index of_part, S* largest) {
  const Index part = blockIdx.y, begin = part * of_part;
  const Index end = begin + of_part < lines.size ? begin + of_part : lines.size;
  const S* line = x + static_cast<Index>(blockIdx.x) * lines.stride;
  S own = minus_infinity<S>;
  for (Index i = begin + threadIdx.x; i < end; i += threads) own = larger(own, line[i * lines.step]);
  own = block_max<threads>(own);
  if (threadIdx.x == 0) largest[static_cast<Index>(blockIdx.x) * gridDim.y + part] = own;
}

/// A warp has a line: it looks for the first part as large as the result, and then for the place in it.
template <class S>
__global__ void __launch_bounds__(warp_lanes)
    maximum_backward_kernel(const S* x, MatrixLines lines, Index of_part, const S* part_largest, Index parts,
                            const S* y, const S* dy, S* dx) {
  const Index line = blockIdx.x;
  const S value = y[line];
  Index part = 0;
  while (part < parts && !(part_largest[line * parts + part] == value)) ++part;
  const Index end = (part + 1) * of_part < lines.size ? (part + 1) * of_part : lines.size;
  for (Index begin = part * of_part; begin < end; begin += warp_lanes) {
    const Index i = begin + threadIdx.x, at = line * lines.stride + i * lines.step;
    const bool equal = i < end && x[at] == value;
    const unsigned found = __ballot_sync(whole_warp, equal);
    if (found == 0) continue;
    if (equal && found << (warp_lanes - 1 - threadIdx.x) == 1u << (warp_lanes - 1)) dx[at] += dy[line];
    return;
  }
}

/// The largest element of parts of lines; NaN if one is, minus infinity of nothing.
///
/// Shapes  largest (lines, parts)
template <class S>
void largest_of_parts(cudaStream_t stream, const S* x, const MatrixLines& lines, Index parts, S* largest) {
  const Index of_part = (lines.size + parts - 1) / parts;
  const dim3 grid(blocks_for(lines.count, 1), blocks_for(parts, 1));
  if (of_part > 256) {
    launch(stream, maximum_kernel<S, 256>, grid, 256, x, lines, of_part, largest);
  } else {
    launch(stream, maximum_kernel<S, warp_lanes>, grid, warp_lanes, x, lines, of_part, largest);
  }
}

/// y_l = the largest element of line l.
///
/// Shapes  y (lines); part_largest, scratch, (lines, parts)
/// Cost    reads x once; over rows a block reads a column, whose neighbours it leaves to the cache
template <class S>
void maximum(cudaStream_t stream, const S* x, const MatrixLines& lines, S* y, S* part_largest) {
  const Index parts = lines.parts();
  if (parts == 1) return largest_of_parts(stream, x, lines, 1, y);
  largest_of_parts(stream, x, lines, parts, part_largest);
  largest_of_parts(stream, part_largest, MatrixLines{lines.count, parts, parts, 1}, 1, y);
}

/// dx += dy at the first of the largest elements of each line; where a line is NaN there is none.
template <class S>
void maximum_backward(cudaStream_t stream, const S* x, const MatrixLines& lines, const S* y, const S* dy, S* dx,
                      S* part_largest) {
  largest_of_parts(stream, x, lines, lines.parts(), part_largest);
  launch(stream, maximum_backward_kernel<S>, blocks_for(lines.count, 1), warp_lanes, x, lines, lines.of_part(),
         part_largest, lines.parts(), y, dy, dx);
}

}  // namespace gpu

template <Precision p>
struct kernels<Cuda<p>, "maximum"> : op<"maximum"> {
  template <class F>
  static constexpr gpu::MatrixLines lines(Index rows) {
    return gpu::MatrixLines::of(detail::over_of(F::attributes), rows, F::template shape<0>.cols);
  }
  template <class Backend, class F>
  static constexpr Index scratch(const Rows& rows) {
    const Shape x = F::template shape<0>;
    const gpu::MatrixLines all = lines<F>(rows.count(x));
    return all.count * all.parts();
  }
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    gpu::maximum(gpu::stream_of(f), f.template in<0>(), lines<F>(f.template rows_in<0>()), f.out(), f.scratch());
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    const Index rows = f.template rows_in<0>();
    if constexpr (F::template write<0> == Write::store) {
      Cuda<p>::clear(f.context, f.template grad<0>(), rows * F::template shape<0>.cols);
    }
    gpu::maximum_backward(gpu::stream_of(f), f.template in<0>(), lines<F>(rows), f.out(), f.out_grad(),
                          f.template grad<0>(), f.scratch());
  }
};

}  // namespace simplx
