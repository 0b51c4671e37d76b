// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/linear_cross_entropy.cuh
/// Cross-entropy in tiles of classes, of ops/linear_cross_entropy.hpp: products of all rows with a tile of the table,
/// and kernels that take a tile of logits, a block for each row.
///
/// What is a row's sum of exponentials so far is kept as its logarithm, and the loss is minus its own logit until the
/// last tile adds that logarithm to it. Rows without a label are computed with the others: how many they are is not
/// known to the host.

#include <simplx/cuda/cross_entropy.cuh>
#include <simplx/cuda/cuda.cuh>
#include <simplx/ops/linear_cross_entropy.hpp>

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

/// Logits become their gradients.
template <class S, int classes>
__global__ void __launch_bounds__(cross_entropy_threads<classes>)
    tiled_loss_backward_kernel(LogitsTile<S> tile, const S* log_sum_exp, const S* dloss) {
  const Index row = blockIdx.x;
  const bool labelled = tile.labels[row] != ignored_label;
  const int label = tile.labels[row] - tile.begin;
  const S log_sum = log_sum_exp[row], scale = labelled ? dloss[row] : S(0);
  S* z = tile.logits + row * classes;
  for (int c = static_cast<int>(threadIdx.x); c < classes; c += cross_entropy_threads<classes>) {
    const S logit = tile.bias ? z[c] + tile.bias[c] : z[c];
    z[c] = labelled ? (std::exp(logit - log_sum) - S(c == label)) * scale : S(0);
  }
}

}  // namespace detail

template <Precision p>
struct kernels<Cuda<p>, "linear_cross_entropy"> : op<"linear_cross_entropy"> {
  using Op = op<"linear_cross_entropy">;
  template <class F>
  static constexpr Index width = F::template shape<2>.cols;

  template <class Backend, class F>
  static constexpr Index scratch(const Rows& rows) {
    const Index together = std::min(Op::tile(F::attributes), F::template shape<0>.rows);
    return round_up(rows.count(F::out_shape.axis) * together, alignment);
  }

  template <class F>
  static void forward(Cuda<p>, const F& f) {
    using S = typename F::Scalar;
    each_tile(f, [&]<int classes>(std::integral_constant<int, classes>, const detail::LogitsTile<S>& tile) {
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
    each_tile(f, [&]<int classes>(std::integral_constant<int, classes>, const detail::LogitsTile<S>& tile) {
      launch(detail::stream_of(f), detail::tiled_loss_backward_kernel<S, classes>, blocks_for(rows, 1),
             detail::cross_entropy_threads<classes>, tile, f.saved(), f.out_grad());
      const Index place = tile.begin * width<F>;
      if constexpr (table_write != Write::skip) {
        Cuda<p>::multiply(f.context,
                          {.rows = classes, .cols = width<F>, .inner = rows, .transpose_a = true,
                           .write = Write::accumulate},
                          tile.logits, f.template in<2>(), dtable + place);
      }
      if constexpr (has_bias<F>) {
        if constexpr (F::template write<3> != Write::skip) {
          add_column_sums(detail::stream_of(f), static_cast<const S*>(tile.logits), static_cast<int>(rows), classes,
                          f.template grad<3>() + tile.begin);
        }
      }
      if constexpr (x_write != Write::skip) {
        Cuda<p>::multiply(f.context,
                          {.rows = rows, .cols = width<F>, .inner = classes,
                           .write = tile.begin == 0 ? x_write : Write::accumulate},
                          tile.logits, f.template in<0>() + place, f.template grad<2>());
      }
    });
  }

 private:
  template <class F>
  static constexpr bool has_bias = Op::template has_bias<F>;

  /// Calls f(number of classes, tile) with the logits of each tile, behind each other in the same scratch.
  template <class F, class Action>
  static void each_tile(const F& f, const Action& action) {
    using S = typename F::Scalar;
    constexpr Index classes = F::template shape<0>.rows, together = Op::tile(F::attributes);
    constexpr int whole = static_cast<int>(classes / together * together);
    S* const logits = f.scratch();
    const auto take = [&]<int count>(std::integral_constant<int, count> size, int begin) {
      Cuda<p>::multiply(f.context, {.rows = f.rows(), .cols = count, .inner = width<F>, .transpose_b = true},
                        f.template in<2>(), f.template in<0>() + begin * width<F>, logits);
      const S* bias = nullptr;
      if constexpr (has_bias<F>) bias = f.template in<3>() + begin;
      action(size, detail::LogitsTile<S>{logits, bias, f.template indices<1>(), begin});
    };
    if constexpr (whole > 0) {
      constexpr int count = static_cast<int>(together);
      for (int begin = 0; begin < whole; begin += count) take(std::integral_constant<int, count>(), begin);
    }
    if constexpr (whole < classes) take(std::integral_constant<int, static_cast<int>(classes) - whole>(), whole);
  }
};

}  // namespace simplx
