// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/dropout.cuh
/// Dropout with the masks of ops/dropout.hpp: a thread draws for its elements from the same key and counters. The key
/// of the step is read from the device's memory, so that a recorded step draws anew in each run.

#include <simplx/core/random.hpp>
#include <simplx/cuda/number.cuh>
#include <simplx/cuda/rows.cuh>
#include <simplx/ops/dropout.hpp>

#include <cmath>
#include <numeric>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// to = from m / (1 - rate), m drawn for each element of a sequence; a thread has so many neighbours of a row, and
/// finds their sequence and its key once.
template <Write mode, int together, class S>
struct Drop {
  Sequences sequences;
  const Draw* step;
  std::uint64_t node;  ///< op<"dropout">::node_key
  Index cols;
  One<S> rate;
  const S* from;
  S* to;
  __device__ void operator()(Index row, Index part) const {
    const auto sequence = sequences.of(row);
    const double dropped = *rate > 0 ? static_cast<double>(*rate) : 0;
    // uniform(...) < dropped, where uniform is (draw + 1/2) / 2^52: both sides are exact.
    const double below = dropped < 1 ? std::ceil(dropped * 0x1p52 - 0.5) : 0x1p52;
    const auto most = static_cast<std::int64_t>(below);
    const S kept = static_cast<S>(dropped < 1 ? 1 / (1 - dropped) : 0);
    const std::uint64_t mine = bits(op<"dropout">::key(step->key, node),
                                    static_cast<std::uint64_t>(step->first_sequence + sequence.number));
    const Index first = part * together, at = row * cols + first;
    const auto element = static_cast<std::uint64_t>((row - sequence.begin) * cols + first);
    Numbers<S, together> numbers = load_numbers<together>(from + at);
    SIMPLX_UNROLL
    for (int k = 0; k < together; ++k) {
      const auto draw = static_cast<std::int64_t>(bits(mine, element + static_cast<std::uint64_t>(k)) >> 12);
      numbers.of[k] = numbers.of[k] * Number<S>(draw < most ? S(0) : kept);
    }
    write_numbers<mode>(to + at, numbers);
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
    constexpr int together = std::gcd(static_cast<int>(cols), 4);
    each_cell(detail::stream_of(f), f.rows(), cols / together,
              detail::Drop<mode, together, S>{streams(f), f.context.gpu->draw(), op<"dropout">::node_key(f), cols,
                                              one<1>(f), from, to});
  }
};

}  // namespace simplx
