// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/rows.cuh
/// Rows moved, summed and turned within their sequences, as ops/rows.hpp and ops/rotary.hpp.

#include <simplx/cuda/cells.cuh>
#include <simplx/cuda/cuda.cuh>
#include <simplx/ops/rotary.hpp>
#include <simplx/ops/rows.hpp>

#include <cmath>

namespace simplx::inline SIMPLX_TARGET {

namespace gpu {

/// The sequences of an axis, and which of them has a row.
struct Sequences {
  struct Sequence {
    Index number, begin, end;
  };
  const Index* offsets = nullptr;  ///< on the device; null where all are `length` rows long
  Index count = 0, length = 0;

  __device__ Sequence operator[](Index number) const {
    return offsets ? Sequence{number, offsets[number], offsets[number + 1]}
                   : Sequence{number, number * length, (number + 1) * length};
  }
  /// Cost    a binary search: log2(count) loads, the same of neighbouring rows
  __device__ Sequence of(Index row) const {
    if (!offsets) return (*this)[row / length];
    Index number = 0;
    for (Index after = count; after - number > 1;) {  // offsets[number] <= row < offsets[after]
      const Index middle = (number + after) / 2;
      (offsets[middle] <= row ? number : after) = middle;
    }
    return (*this)[number];
  }
};

/// Those of the result's axis: all rows together where it has none.
template <class F>
Sequences sequences_of(const F& frame) {
  if constexpr (F::out_shape.axis == Axis::tokens) {
    return {.offsets = frame.context.segments.offsets, .count = frame.context.segments.count};
  } else {
    return {.count = 1, .length = frame.rows()};
  }
}

/// to_t = from_(t - by), zero where its sequence has no such row.
template <Write mode, class S>
struct Shift {
  Sequences sequences;
  Index by, cols;
  const S* from;
  S* to;
  __device__ void operator()(Index row, Index col) const {
    const auto sequence = sequences.of(row);
    const Index source = row - by;
    const bool inside = sequence.begin <= source && source < sequence.end;
    write<mode>(to[row * cols + col], inside ? from[source * cols + col] : S(0));
  }
};

/// A column of a sequence, its rows added up from the first or the last one on. Cells are (sequences, cols).
template <Write mode, bool from_last, class S>
struct RunningSum {
  Sequences sequences;
  Index cols;
  const S* from;
  S* to;
  __device__ void operator()(Index number, Index col) const {
    const auto sequence = sequences[number];
    S total = 0;
    for (Index k = sequence.begin; k < sequence.end; ++k) {
      const Index at = (from_last ? sequence.end - 1 - (k - sequence.begin) : k) * cols + col;
      total += from[at];
      write<mode>(to[at], total);
    }
  }
};

/// The first row of each sequence, zero of an empty one. Cells are (sequences, cols), in the pull-back too.
template <class S>
struct FirstRow {
  Sequences sequences;
  Index cols;
  const S* x;
  S* y;
  __device__ void operator()(Index number, Index col) const {
    const auto sequence = sequences[number];
    y[number * cols + col] = sequence.begin < sequence.end ? x[sequence.begin * cols + col] : S(0);
  }
};
template <class S>
struct AddToFirstRow {
  Sequences sequences;
  Index cols;
  const S* dy;
  S* dx;
  __device__ void operator()(Index number, Index col) const {
    const auto sequence = sequences[number];
    if (sequence.begin < sequence.end) dx[sequence.begin * cols + col] += dy[number * cols + col];
  }
};

/// The pairs of one number in all heads of a row, turned by the angle that they share. Cells are (rows, width / 2).
template <Write mode, class S>
struct Rotate {
  Sequences sequences;
  const Index* past;   ///< of a stream: how many tokens each sequence had before these, on the device; null: none
  Index heads, width;  ///< width of a head
  double direction;
  One<S> base;
  const S* from;
  S* to;
  __device__ void operator()(Index row, Index pair) const {
    const double exponent = -2.0 * static_cast<double>(pair) / static_cast<double>(width);
    const auto sequence = sequences.of(row);
    const double position = static_cast<double>((past ? past[sequence.number] : 0) + row - sequence.begin);
    const double angle = position * std::pow(static_cast<double>(*base), exponent);
    const S cosine = static_cast<S>(std::cos(angle)), sine = static_cast<S>(direction * std::sin(angle));
    for (Index head = 0; head < heads; ++head) {
      const Index at = (row * heads + head) * width + 2 * pair;
      const S a = from[at], b = from[at + 1];
      write<mode>(to[at], a * cosine - b * sine);
      write<mode>(to[at + 1], a * sine + b * cosine);
    }
  }
};

}  // namespace gpu

template <Precision p>
struct kernels<Cuda<p>, "slice_rows"> : op<"slice_rows"> {
  template <class F>
  static constexpr Index begin = detail::slice_in(F::attributes).begin * F::out_shape.cols;
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    Cuda<p>::copy(f.context, f.template in<0>() + begin<F>, F::out_shape.columns(), f.out());
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    Cuda<p>::add(f.context, f.out_grad(), F::out_shape.columns(), f.template grad<0>() + begin<F>);
  }
};

template <Precision p>
struct kernels<Cuda<p>, "shift"> : op<"shift"> {
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    run<Write::store>(f, op<"shift">::by(F::attributes), f.template in<0>(), f.out());
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    run<F::template write<0>>(f, -op<"shift">::by(F::attributes), f.out_grad(), f.template grad<0>());
  }

 private:
  template <Write mode, class F, class S>
  static void run(const F& f, Index by, const S* from, S* to) {
    constexpr Index cols = F::out_shape.cols;
    gpu::each_cell(gpu::stream_of(f), f.rows(), cols, gpu::Shift<mode, S>{gpu::sequences_of(f), by, cols, from, to});
  }
};

/// Cost    one thread for each column of a sequence
template <Precision p>
struct kernels<Cuda<p>, "cumulative_sum"> : op<"cumulative_sum"> {
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    run<Write::store, op<"cumulative_sum">::from_last(F::attributes)>(f, f.template in<0>(), f.out());
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    run<F::template write<0>, !op<"cumulative_sum">::from_last(F::attributes)>(f, f.out_grad(), f.template grad<0>());
  }

 private:
  template <Write mode, bool from_last, class F, class S>
  static void run(const F& f, const S* from, S* to) {
    constexpr Index cols = F::out_shape.cols;
    const gpu::Sequences sequences = gpu::sequences_of(f);
    gpu::each_cell(gpu::stream_of(f), sequences.count, cols,
                   gpu::RunningSum<mode, from_last, S>{sequences, cols, from, to});
  }
};

template <Precision p>
struct kernels<Cuda<p>, "first_of_sequence"> : op<"first_of_sequence"> {
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    using Rule = gpu::FirstRow<typename F::Scalar>;
    run(f, Rule{tokens(f), F::out_shape.cols, f.template in<0>(), f.out()});
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    using Rule = gpu::AddToFirstRow<typename F::Scalar>;
    if constexpr (F::template write<0> == Write::store) {
      Cuda<p>::clear(f.context, f.template grad<0>(), f.template rows_in<0>() * F::out_shape.cols);
    }
    run(f, Rule{tokens(f), F::out_shape.cols, f.out_grad(), f.template grad<0>()});
  }

 private:
  template <class F>
  static gpu::Sequences tokens(const F& f) {
    return {.offsets = f.context.segments.offsets, .count = f.context.segments.count};
  }
  template <class F, class Rule>
  static void run(const F& f, const Rule& rule) {
    gpu::each_cell(gpu::stream_of(f), f.context.segments.count, F::out_shape.cols, rule);
  }
};

/// Cost    one power, sine and cosine in double for each pair of a head, whatever the number of heads
template <Precision p>
struct kernels<Cuda<p>, "rotary"> : op<"rotary"> {
  static constexpr int number_operand = 1;
  template <class Backend, class F>
  static constexpr Index scratch(const Rows&) {
    return 0;
  }
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    turn<Write::store>(f, 1, f.template in<0>(), f.out());
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    turn<F::template write<0>>(f, -1, f.out_grad(), f.template grad<0>());
  }

 private:
  template <Write mode, class F, class S>
  static void turn(const F& f, double direction, const S* from, S* to) {
    constexpr Index heads = op<"rotary">::heads_in(F::attributes), width = F::out_shape.cols / heads;
    gpu::each_cell(gpu::stream_of(f), f.rows(), width / 2,
                   gpu::Rotate<mode, S>{gpu::sequences_of(f), f.context.past, heads, width, direction, gpu::one<1>(f),
                                        from, to});
  }
};

}  // namespace simplx
