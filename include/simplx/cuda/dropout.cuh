// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/dropout.cuh
/// Dropout with the masks of ops/dropout.hpp: a thread draws for its element from the same key and counter. The key of
/// the step is read from the device's memory, so that a recorded step draws anew in each run.

#include <simplx/core/random.hpp>
#include <simplx/cuda/rows.cuh>
#include <simplx/ops/dropout.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// to = from m / (1 - rate), m drawn for each element of a sequence.
template <Write mode, class S>
struct Drop {
  Sequences sequences;
  const Draw* step;
  std::uint64_t node;  ///< op<"dropout">::node_key
  Index cols;
  One<S> rate;
  const S* from;
  S* to;
  __device__ void operator()(Index row, Index col) const {
    const auto sequence = sequences.of(row);
    const double dropped = *rate > 0 ? static_cast<double>(*rate) : 0;
    const std::uint64_t mine = bits(op<"dropout">::key(step->key, node),
                                    static_cast<std::uint64_t>(step->first_sequence + sequence.number));
    const auto element = static_cast<std::uint64_t>((row - sequence.begin) * cols + col);
    const S kept = static_cast<S>(dropped < 1 ? 1 / (1 - dropped) : 0);
    write<mode>(to[row * cols + col], from[row * cols + col] * (uniform(mine, element) < dropped ? S(0) : kept));
  }
};

}  // namespace detail

template <Precision p>
struct kernels<Cuda<p>, "dropout"> : op<"dropout"> {
  static constexpr int number_operand = 1;
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    run<Write::store>(f, f.template in<0>(), f.out());
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    run<F::template write<0>>(f, f.out_grad(), f.template grad<0>());
  }

 private:
  /// What shares a stream of random numbers: a sequence of tokens, all of a fixed shape, otherwise each row.
  template <class F>
  static Sequences streams(const F& f) {
    constexpr bool by_row = F::out_shape.axis != Axis::tokens && !F::out_shape.is_fixed();
    return by_row ? Sequences{.count = f.rows(), .length = 1} : detail::sequences_of(f);
  }
  template <Write mode, class F, class S>
  static void run(const F& f, const S* from, S* to) {
    constexpr Index cols = F::out_shape.cols;
    const Randomness& random = f.context.random;
    if (!random.training) return move_cells<mode>(detail::stream_of(f), f.rows(), cols, from, {cols}, to, {cols});
    each_cell(detail::stream_of(f), f.rows(), cols,
              detail::Drop<mode, S>{streams(f), f.context.gpu->draw(), op<"dropout">::node_key(f), cols, one<1>(f),
                                    from, to});
  }
};

}  // namespace simplx
