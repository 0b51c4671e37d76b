// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/linear_cross_entropy.cuh
/// The cross-entropy of ops/linear_cross_entropy.hpp, in tiles of rows: all logits of some thousand rows at a time.
///
///     logits = x W^T + c      of the rows of a tile, in scratch memory
///     loss, dlogits           by the kernels of cross_entropy.cuh, where the logits lie
///     dW += dlogits^T x,  dc += sums of dlogits,  dx = dlogits W
///
/// In a step of training all of that is backward's, which computes the logits once; otherwise it computes them again.
/// Rows without a label are computed with the others (where x of one is not finite, dW is not either): of masked
/// language models a Trainer leaves them out beforehand (labelled_rows.cuh). With Precision::bfloat16 x, the table, the
/// bias, the logits and their gradients are rounded, as those of a product with a bias and a cross-entropy are.

#include <simplx/cuda/bfloat16.cuh>
#include <simplx/cuda/cross_entropy.cuh>
#include <simplx/cuda/cuda.cuh>
#include <simplx/ops/linear_cross_entropy.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace gpu {

/// What logits are stored as. No member: nvcc 13.0 could not name it for the kernels.
template <Precision p>
using LogitIn = Stored<p == Precision::bfloat16, typename Cuda<p>::Scalar>;

/// For doubles, of which cuBLASLt promises no epilogue.
template <class S>
struct AddBias {
  const S* bias;
  Index stride;
  S* logits;
  __device__ void operator()(Index row, Index col) const { logits[row * stride + col] += bias[col]; }
};

}  // namespace gpu

template <Precision p>
struct kernels<Cuda<p>, "linear_cross_entropy"> : op<"linear_cross_entropy"> {
  using Op = op<"linear_cross_entropy">;
  static constexpr bool rounds = p == Precision::bfloat16;
  using S = typename Cuda<p>::Scalar;
  static constexpr Index of_16_bytes = 16 / static_cast<Index>(sizeof(gpu::LogitIn<p>));

  template <class F>
  static constexpr Index width = F::template shape<2>.cols;
  template <class F>
  static constexpr int classes = static_cast<int>(F::template shape<0>.rows);
  /// From one row of logits to the next, each on 16 bytes.
  template <class F>
  static constexpr int stride = static_cast<int>(round_up(classes<F>, of_16_bytes));
  /// Rows of the largest tile, 4096 in bfloat16 and 2048 in float, but half a gigabyte of logits: with fewer, products
  /// wait for the gradient of the table, which each tile reads and writes.
  template <class F>
  static constexpr Index most_rows =
      std::clamp<Index>((Index(1) << 25) * of_16_bytes / stride<F>, 1, of_16_bytes * Op::tile(F::attributes));
  /// Rows of each tile but the last: as few tiles as there have to be, of one size.
  template <class F>
  static constexpr Index rows_of_tile(Index rows) {
    const Index tiles = (rows + most_rows<F> - 1) / most_rows<F>;
    return tiles <= 1 ? rows : std::min(round_up((rows + tiles - 1) / tiles, 8), most_rows<F>);
  }

  template <class, class F>
  static constexpr Index scratch(const Rows& rows) {
    const Index count = std::min(rows.count(F::out_shape.axis), most_rows<F>);
    if (!rounds) return round_up(count * stride<F>, alignment);
    return gpu::rounded_scratch(count, stride<F>) + (x_stored_so<F> ? 0 : gpu::rounded_scratch(count, width<F>)) +
           (gpu::rounded_beside<F, 0> ? 0 : gpu::rounded_scratch(classes<F>, width<F>)) +
           gpu::rounded_scratch(1, classes<F>);
  }

  template <class F>
  static void forward(Cuda<p>, const F& f) {
    if (gpu::left_to_backward(f)) return Cuda<p>::clear(f.context, f.out(), f.rows());
    each_tile(f, [&](const Tile& tile) {
      gpu::cross_entropy<S, classes<F>, stride<F>>(gpu::stream_of(f), tile.logits, labels(f, tile), no_smoothing,
                                                   f.out() + tile.begin, f.saved() + 2 * tile.begin, tile.rows);
    });
  }

  template <class F>
  static void backward(Cuda<p>, const F& f) {
    constexpr Write table_write = F::template write<0>, x_write = F::template write<2>;
    constexpr Write bias_write = Op::template bias_write<F>();
    S* const dtable = f.template grad<0>();
    if constexpr (table_write == Write::store) Cuda<p>::clear(f.context, dtable, classes<F> * width<F>);
    if constexpr (bias_write == Write::store) Cuda<p>::clear(f.context, f.template grad<3>(), classes<F>);
    const cudaStream_t stream = gpu::stream_of(f);
    each_tile(f, [&](const Tile& tile) {
      const S* const dloss = f.out_grad() + tile.begin;
      if (S* const loss = gpu::left_to_backward(f)) {
        gpu::cross_entropy_and_backward<S, classes<F>, Write::store, stride<F>>(
            stream, tile.logits, labels(f, tile), no_smoothing, dloss, loss + tile.begin, tile.logits, tile.rows);
      } else {
        gpu::cross_entropy_backward<S, classes<F>, Write::store, stride<F>>(stream, tile.logits, labels(f, tile),
                                                                            no_smoothing, f.saved() + 2 * tile.begin,
                                                                            dloss, tile.logits, tile.rows);
      }
      const Matrix dlogits{tile.logits, stride<F>};
      if constexpr (table_write != Write::skip) {
        multiply(f, {.rows = classes<F>, .cols = width<F>, .inner = tile.rows, .transpose_a = true,
                     .write = Write::accumulate},
                 dlogits, tile.x, dtable);
      }
      if constexpr (bias_write != Write::skip) {
        gpu::column_sums<Write::accumulate>(stream, dlogits.data, {.row = stride<F>}, static_cast<int>(tile.rows),
                                            classes<F>, f.template grad<3>());
      }
      if constexpr (x_write != Write::skip) {
        multiply(f, {.rows = tile.rows, .cols = width<F>, .inner = classes<F>, .write = x_write}, dlogits, tile.table,
                 f.template grad<2>() + tile.begin * width<F>);
      }
    });
  }

 private:
  using Matrix = gpu::Factor<gpu::LogitIn<p>>;
  static constexpr gpu::One<S> no_smoothing{0.0};

  /// Rows from `begin` on, with the factors of their products.
  struct Tile {
    Index begin, rows;
    Matrix x, table;
    gpu::LogitIn<p>* logits;
  };

  template <class F>
  static constexpr bool x_stored_so = gpu::stores_bfloat16<Cuda<p>, typename F::Graph, F::template argument<2>>;
  template <class F>
  static const std::int32_t* labels(const F& f, const Tile& tile) {
    return f.template indices<1>() + tile.begin;
  }

  /// Calls f(tile) with the logits of each tile, one after the other in the same scratch.
  template <class F, class Action>
  static void each_tile(const F& f, const Action& action) {
    S* scratch = f.scratch();
    const Index together = rows_of_tile<F>(f.rows());
    auto* const logits = reinterpret_cast<gpu::LogitIn<p>*>(scratch);
    if constexpr (rounds) scratch += gpu::rounded_scratch(together, stride<F>);
    const Matrix table = factor<0>(f, f.template in<0>(), classes<F>, scratch);
    gpu::ProductEpilogue<gpu::LogitIn<p>> epilogue{};
    if constexpr (Op::template has_bias<F> && p != Precision::float64) {
      epilogue = {.function = gpu::Epilogue::bias, .bias = bias_as_stored(f, scratch)};
    }
    for (Index begin = 0; begin < f.rows(); begin += together) {
      S* place = scratch;
      const Index rows = std::min(together, f.rows() - begin);
      const Matrix x = factor<2>(f, gpu::value_of<Cuda<p>, 2>(f) + begin * width<F>, rows, place);
      multiply(f, {.rows = rows, .cols = classes<F>, .inner = width<F>, .transpose_b = true, .ld_y = stride<F>}, x,
               table, logits, epilogue);
      if constexpr (Op::template has_bias<F> && p == Precision::float64) {
        gpu::each_cell(gpu::stream_of(f), rows, classes<F>, gpu::AddBias<S>{f.template in<3>(), stride<F>, logits});
      }
      action(Tile{begin, rows, x, table, logits});
    }
  }

  /// A matrix as products take it: in scratch memory, which is moved on, if it has to be rounded.
  template <int k, class F, class W>
  static Matrix factor(const F& f, const W* matrix, Index rows, S*& scratch) {
    if constexpr (std::is_same_v<W, gpu::LogitIn<p>>) {
      return {matrix, width<F>};
    } else if constexpr (gpu::rounded_beside<F, k>) {
      return {f.context.gpu->rounded(matrix), width<F>};
    } else {
      return gpu::round_to_bfloat16<width<F>>(gpu::stream_of(f), matrix, rows, scratch);
    }
  }
  /// A bias as the logits' epilogue takes it.
  template <class F>
  static const gpu::LogitIn<p>* bias_as_stored(const F& f, S*& scratch) {
    if constexpr (rounds) {
      return gpu::round_to_bfloat16<classes<F>>(gpu::stream_of(f), f.template in<3>(), 1, scratch).data;
    } else {
      return f.template in<3>();
    }
  }
  template <class F, class Y>
  static void multiply(const F& f, gpu::ProductShape shape, const Matrix& a, const Matrix& b, Y* y,
                       const gpu::ProductEpilogue<Y>& epilogue = {}) {
    shape.ld_a = a.stride, shape.ld_b = b.stride;
    Cuda<p>::multiply(f.context, shape, a.data, b.data, y, epilogue);
  }
};

}  // namespace simplx
