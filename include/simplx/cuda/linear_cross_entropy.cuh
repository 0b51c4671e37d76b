// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/linear_cross_entropy.cuh
/// Cross-entropy in tiles of classes, of ops/linear_cross_entropy.hpp: products of all rows with a tile of the table,
/// and kernels that take a tile of logits, a block for each row.
///
/// What is a row's sum of exponentials so far is kept as its logarithm, and the loss is minus its own logit until the
/// last tile adds that logarithm to it. Rows without a label are computed with the others: of masked language models a
/// Trainer leaves them out beforehand (labelled_rows.cuh). With Precision::bfloat16 x, the table and the gradients of
/// logits are rounded for their products; logits, which stay in scratch memory, are float.

#include <simplx/cuda/bfloat16.cuh>
#include <simplx/cuda/cross_entropy.cuh>
#include <simplx/cuda/cuda.cuh>
#include <simplx/ops/linear_cross_entropy.hpp>

#include <utility>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// A tile of logits: those of the classes from `begin` on, to which a bias is added, if there is one.
template <class S>
struct LogitsTile {
  S* logits;
  const S* bias;
  const std::int32_t* labels;
  int begin;
};

template <class S, int classes>
__global__ void __launch_bounds__(cross_entropy_threads<classes>)
    tiled_loss_kernel(LogitsTile<S> tile, bool is_last, S* loss, S* log_sum_exp) {
  constexpr int threads = cross_entropy_threads<classes>;
  const Index row = blockIdx.x;
  const S* z = tile.logits + row * classes;
  const auto logit = [&](int c) { return tile.bias ? z[c] + tile.bias[c] : z[c]; };
  ExpSum<S> own;
  for (int c = static_cast<int>(threadIdx.x); c < classes; c += threads) own.add(logit(c));
  ExpSum<S> all = block_exp_sum<threads>(own);
  if (threadIdx.x != 0) return;
  if (tile.begin > 0) {
    const ExpSum<S> before{log_sum_exp[row], S(1)};
    const S highest = larger(all.highest, before.highest);
    if (highest > minus_infinity<S> || highest != highest) {
      all = {highest, all.below(highest) + std::exp(before.highest - highest)};
    }
  }
  const S log_sum = all.sum != 0 ? all.highest + std::log(all.sum) : minus_infinity<S>;
  log_sum_exp[row] = log_sum;
  const int label = tile.labels[row] - tile.begin;
  if (label >= 0 && label < classes) loss[row] = -logit(label);
  if (is_last) loss[row] = tile.labels[row] == ignored_label ? S(0) : loss[row] + log_sum;
}

/// Logits become their gradients; where there is room for rounded ones, whose rows are `stride` apart, these instead.
template <class S, int classes>
__global__ void __launch_bounds__(cross_entropy_threads<classes>)
    tiled_loss_backward_kernel(LogitsTile<S> tile, const S* log_sum_exp, const S* dloss, __nv_bfloat16* rounded,
                               Index stride) {
  const Index row = blockIdx.x;
  const bool labelled = tile.labels[row] != ignored_label;
  const int label = tile.labels[row] - tile.begin;
  const S log_sum = log_sum_exp[row], scale = labelled ? dloss[row] : S(0);
  S* z = tile.logits + row * classes;
  for (int c = static_cast<int>(threadIdx.x); c < classes; c += cross_entropy_threads<classes>) {
    const S logit = tile.bias ? z[c] + tile.bias[c] : z[c];
    const S slope = labelled ? (std::exp(logit - log_sum) - S(c == label)) * scale : S(0);
    if (!rounded || tile.bias) z[c] = slope;  // only a bias adds up those that are not rounded
    if (rounded) rounded[row * stride + c] = __float2bfloat16(static_cast<float>(slope));
  }
}

}  // namespace detail

template <Precision p>
struct kernels<Cuda<p>, "linear_cross_entropy"> : op<"linear_cross_entropy"> {
  using Op = op<"linear_cross_entropy">;
  static constexpr bool rounds = p == Precision::bfloat16;
  template <class F>
  static constexpr Index width = F::template shape<2>.cols;
  /// Classes of a tile: more of them than suit the caches of a CPU, for a product of 4096 rows, 512 classes and a width
  /// of 768 takes 8 us on an H100, 1.7 times what its FLOPs need.
  template <class F>
  static constexpr Index classes_of_tile = std::min(8 * Op::tile(F::attributes), F::template shape<0>.rows);

  template <class Backend, class F>
  static constexpr Index scratch(const Rows& rows) {
    constexpr Index together = classes_of_tile<F>;
    const Index count = rows.count(F::out_shape.axis), logits = round_up(count * together, alignment);
    if (!rounds) return logits;
    return logits + rounded_scratch(count, width<F>) +
           (rounded_beside<F, 0> ? 0 : rounded_scratch(together, width<F>)) + rounded_scratch(count, together);
  }

  template <class F>
  static void forward(Cuda<p>, const F& f) {
    using S = typename F::Scalar;
    each_tile(f, [&]<int classes>(const Tile<F, classes>& tile) {
      launch(detail::stream_of(f), detail::tiled_loss_kernel<S, classes>, blocks_for(f.rows(), 1),
             detail::cross_entropy_threads<classes>, tile, tile.begin + classes == F::template shape<0>.rows, f.out(),
             f.saved());
    });
  }

  template <class F>
  static void backward(Cuda<p>, const F& f) {
    using S = typename F::Scalar;
    constexpr Write table_write = F::template write<0>, x_write = F::template write<2>;
    const Index rows = f.rows();
    S* const dtable = f.template grad<0>();
    if constexpr (table_write == Write::store) Cuda<p>::clear(f.context, dtable, f.template rows_in<0>() * width<F>);
    if constexpr (has_bias<F>) {
      if constexpr (F::template write<3> == Write::store) {
        Cuda<p>::clear(f.context, f.template grad<3>(), F::template shape<3>.cols);
      }
    }
    each_tile(f, [&]<int classes>(const Tile<F, classes>& tile) {
      const auto slopes = tile.slopes();
      launch(detail::stream_of(f), detail::tiled_loss_backward_kernel<S, classes>, blocks_for(rows, 1),
             detail::cross_entropy_threads<classes>, tile, f.saved(), f.out_grad(), tile.rounded, slopes.stride);
      if constexpr (table_write != Write::skip) {
        multiply(f, {.rows = classes, .cols = width<F>, .inner = rows, .transpose_a = true, .write = Write::accumulate},
                 slopes, tile.x, dtable + tile.begin * width<F>);
      }
      if constexpr (has_bias<F>) {
        if constexpr (F::template write<3> != Write::skip) {
          add_column_sums(detail::stream_of(f), static_cast<const S*>(tile.logits), static_cast<int>(rows), classes,
                          f.template grad<3>() + tile.begin);
        }
      }
      if constexpr (x_write != Write::skip) {
        multiply(f, {.rows = rows, .cols = width<F>, .inner = classes,
                     .write = tile.begin == 0 ? x_write : Write::accumulate},
                 slopes, tile.table, f.template grad<2>());
      }
    });
  }

 private:
  template <class F>
  static constexpr bool has_bias = Op::template has_bias<F>;
  template <class F>
  using FactorOf = Factor<detail::Stored<rounds, typename F::Scalar>>;

  /// A tile with the factors of its products.
  template <class F, int classes>
  struct Tile : detail::LogitsTile<typename F::Scalar> {
    FactorOf<F> x, table;
    __nv_bfloat16* rounded;  ///< memory for a copy of the gradients of logits, or null

    /// The gradients of logits, once they are there.
    FactorOf<F> slopes() const {
      if constexpr (rounds) {
        return {rounded, rounded_stride(classes)};
      } else {
        return {this->logits, classes};
      }
    }
  };

  /// A matrix as products take it: in scratch memory, which is moved on, if it has to be rounded.
  template <int k, Index cols, class F, class W>
  static FactorOf<F> factor(const F& f, const W* matrix, Index rows, typename F::Scalar*& scratch) {
    if constexpr (rounds && std::is_same_v<W, float> && rounded_beside<F, k>) {
      return {f.context.gpu->rounded(matrix), cols};
    } else if constexpr (rounds && std::is_same_v<W, float>) {
      return round_to_bfloat16<cols>(detail::stream_of(f), matrix, rows, scratch);
    } else {
      return {matrix, cols};
    }
  }
  template <class F>
  static void multiply(const F& f, ProductShape shape, const FactorOf<F>& a, const FactorOf<F>& b,
                       typename F::Scalar* y) {
    shape.ld_a = a.stride, shape.ld_b = b.stride;
    Cuda<p>::multiply(f.context, shape, a.data, b.data, y);
  }

  /// Calls f(tile) with the logits of each tile, behind each other in the same scratch.
  template <class F, class Action>
  static void each_tile(const F& f, const Action& action) {
    using S = typename F::Scalar;
    constexpr Index classes = F::template shape<0>.rows, together = classes_of_tile<F>;
    constexpr int whole = static_cast<int>(classes / together * together);
    S* scratch = f.scratch();
    S* const logits = std::exchange(scratch, scratch + round_up(f.rows() * together, alignment));
    const FactorOf<F> x = factor<2, width<F>>(f, detail::value_of<Cuda<p>, 2>(f), f.rows(), scratch);
    const auto take = [&]<int count>(std::integral_constant<int, count>, int begin) {
      S* place = scratch;
      const S* bias = nullptr;
      if constexpr (has_bias<F>) bias = f.template in<3>() + begin;
      const FactorOf<F> table = factor<0, width<F>>(f, f.template in<0>() + begin * width<F>, Index(count), place);
      __nv_bfloat16* rounded = nullptr;
      if constexpr (rounds) rounded = reinterpret_cast<__nv_bfloat16*>(place);
      multiply(f, {.rows = f.rows(), .cols = count, .inner = width<F>, .transpose_b = true}, x, table, logits);
      action(Tile<F, count>{{logits, bias, f.template indices<1>(), begin}, x, table, rounded});
    };
    if constexpr (whole > 0) {
      constexpr int count = static_cast<int>(together);
      for (int begin = 0; begin < whole; begin += count) take(std::integral_constant<int, count>(), begin);
    }
    if constexpr (whole < classes) take(std::integral_constant<int, static_cast<int>(classes) - whole>(), whole);
  }
};

}  // namespace simplx
