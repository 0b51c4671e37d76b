// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/rows.hpp
/// Moving and gathering rows. On the axis of tokens all but `gather` stay within each sequence.
///
///     gather(x, index)        y_r = x[index_r]                      dx[index_r] += dy_r
///     slice_rows(x, b, n)     y = x[b : b + n], static rows         dx[b : b + n] += dy
///     shift(x, n)             y_t = x_{t - n}, zero before          dx_t = dy_{t + n}
///     cumulative_sum(x)       y_t = x_0 + ... + x_t                 dx_t = dy_t + dy_{t + 1} + ...
///     first_of_sequence(x)    y_s = the first row of sequence s     (tokens, C) -> (sequences, C)

#include <simplx/ops/columns.hpp>
#include <simplx/ops/embedding.hpp>

namespace simplx::inline SIMPLX_TARGET {

SIMPLX_RULE("static slice", left == right,
            "slice_rows(x, begin, count) needs a static number of rows (a weight, or computed from weights); of run-"
            "time rows, gather(x, indices(...)) takes those that are named")

namespace detail {

/// Calls visit(sequence, first row, rows) for each; for all rows together where the axis has none.
template <class F, class Visit>
void each_sequence(const F& frame, Visit visit) {
  if constexpr (F::out_shape.axis == Axis::tokens) {
    frame.context.segments.each(visit);
  } else {
    visit(Index(0), Index(0), frame.rows());
  }
}

struct same_shape_op : kernel_op {
  static constexpr bool rows_apart(Axis axis) { return axis == Axis::tokens; }
  static constexpr Checked shape(const Attributes&, Shape x) { return x; }
};

}  // namespace detail

template <>
struct op<"slice_rows"> : kernel_op {
  static constexpr Checked shape(const Attributes& attributes, Shape x) {
    const auto [begin, count] = detail::slice_in(attributes);
    if (!x.is_fixed()) return {"static slice", static_cast<Index>(x.axis), 0};
    if (begin < 0 || count < 1) return {"slice begin", begin, count};
    if (begin + count > x.rows) return {"slice", begin + count, x.rows};
    return fixed_shape(count, x.cols);
  }
  static std::string settings(const Attributes& attributes) {
    return "rows " + detail::range_text(detail::slice_in(attributes));
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Index cols = F::out_shape.cols;
    const S* const rows = frame.template in<0>() + detail::slice_in(F::attributes).begin * cols;
    std::copy_n(rows, F::out_shape.rows * cols, frame.out());
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index cols = F::out_shape.cols;
    S* const rows = frame.template grad<0>() + detail::slice_in(F::attributes).begin * cols;
    detail::move_columns<Write::accumulate, S>(F::out_shape.rows, cols, {frame.out_grad(), cols}, {rows, cols});
  }
};

template <>
struct op<"shift"> : detail::same_shape_op {
  static constexpr Index by(Attributes attributes) { return attributes.integers[0]; }
  static std::string settings(const Attributes& attributes) { return "by " + std::to_string(by(attributes)); }
  static constexpr Term derive(const Node* node, int, const Term& g) {
    return Term(apply<"shift">({.integers = {-by(node->attributes)}}, detail::whole(g, node)));
  }
  /// Of each sequence calls zero(at, count) for what nothing moves into, and move(to, from, count) for the rows that
  /// have one `by` before them, all in elements.
  template <class F, class Zero, class Move>
  static void each(const F& frame, Index by, Zero zero, Move move) {
    constexpr Index cols = F::out_shape.cols;
    detail::each_sequence(frame, [&](Index, Index first, Index rows) {
      const Index gone = std::min(rows, by < 0 ? -by : by), left = rows - gone;
      zero((first + (by > 0 ? 0 : left)) * cols, gone * cols);
      move((first + (by > 0 ? gone : 0)) * cols, (first + (by > 0 ? 0 : gone)) * cols, left * cols);
    });
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    const S* x = frame.template in<0>();
    S* y = frame.out();
    each(frame, by(F::attributes), [&](Index at, Index count) { std::fill_n(y + at, count, S(0)); },
         [&](Index to, Index from, Index count) { std::copy_n(x + from, count, y + to); });
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr bool stores = F::template write<0> == Write::store;
    const S* g = frame.out_grad();
    S* dx = frame.template grad<0>();
    each(frame, -by(F::attributes),
         [&](Index at, Index count) {
           if constexpr (stores) std::fill_n(dx + at, count, S(0));
         },
         [&](Index to, Index from, Index count) {
           for (Index i = 0; i < count; ++i) dx[to + i] = (stores ? S(0) : dx[to + i]) + g[from + i];
         });
  }
};

/// Sums from the first row on, or from the last row back: each is the pull-back of the other.
template <>
struct op<"cumulative_sum"> : detail::same_shape_op {
  static constexpr bool from_last(Attributes attributes) { return attributes.integers[0] != 0; }
  static std::string settings(const Attributes& attributes) {
    return from_last(attributes) ? "from the last row" : "";
  }
  static constexpr Term derive(const Node* node, int, const Term& g) {
    return Term(apply<"cumulative_sum">({.integers = {!from_last(node->attributes)}}, detail::whole(g, node)));
  }
  /// to = running sums of from, or added to it.
  template <bool backwards, bool accumulates, class F, class S>
  static void run(const F& frame, const S* from, S* to) {
    constexpr Index cols = F::out_shape.cols;
    detail::each_sequence(frame, [&](Index, Index first, Index rows) {
      cpu::each_column<S, cols>([&]<class V>(Index c) {
        cpu::Register<V> total{};
        for (Index k = 0; k < rows; ++k) {
          const Index at = (first + (backwards ? rows - 1 - k : k)) * cols + c;
          total += load<V>(from + at);
          put<accumulates ? Write::accumulate : Write::store, V>(to + at, total);
        }
      });
    });
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    run<from_last(F::attributes), false>(frame, frame.template in<0>(), frame.out());
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    run<!from_last(F::attributes), F::template write<0> == Write::accumulate>(frame, frame.out_grad(),
                                                                                  frame.template grad<0>());
  }
};

template <>
struct op<"first_of_sequence"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr Checked shape(const Attributes&, Shape x) {
    if (x.axis != Axis::tokens) return {"token rows", static_cast<Index>(x.axis), static_cast<Index>(Axis::tokens)};
    return rows_of(Axis::sequences, x.cols);
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Index cols = F::out_shape.cols;
    frame.context.segments.each([&](Index s, Index first, Index rows) {
      S* y = frame.out() + s * cols;
      if (rows == 0) return void(std::fill_n(y, cols, S(0)));
      std::copy_n(frame.template in<0>() + first * cols, cols, y);
    });
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index cols = F::out_shape.cols;
    S* dx = frame.template grad<0>();
    if constexpr (F::template write<0> == Write::store) std::fill_n(dx, frame.template rows_in<0>() * cols, S(0));
    frame.context.segments.each([&](Index s, Index first, Index rows) {
      if (rows == 0) return;
      const S* g = frame.out_grad() + s * cols;
      for (Index c = 0; c < cols; ++c) dx[first * cols + c] += g[c];
    });
  }
};

/// The rows of x that are named, one for each index: of a weight, or of any value.
///
/// Shapes  x (V, d), V static or an axis; index (rows) -> (rows, d)
/// Errors  does not compile unless the second operand is indices(...)
constexpr Expr gather(At x, At index) { return embedding(x, index); }

/// `count` rows of a value, from `begin` on.
///
/// Shapes  x (R, C), R static -> (count, C)
/// Errors  does not compile for run-time rows, or rows that x does not have: rules "static slice", "slice begin" and
///         "slice"
constexpr Expr slice_rows(At x, Index begin, Index count) {
  return apply<"slice_rows">(detail::attributes_of(detail::Slice{begin, count}), x);
}

/// Each row moved `by` rows down (up if negative), within its sequence; zeros move in.
///
/// Shapes  any, and the same
constexpr Expr shift(At x, Index by) { return apply<"shift">({.integers = {by}}, x); }

/// Running sums down the rows, anew in each sequence.
///
/// Shapes  any, and the same
constexpr Expr cumulative_sum(At x) { return apply<"cumulative_sum">({}, x); }

/// The first token of each sequence: what a classifier reads. Zeros of an empty one.
///
/// Shapes  x (tokens, C) -> (sequences, C)
/// Errors  does not compile along another axis: rule "token rows"
constexpr Expr first_of_sequence(At x) { return apply<"first_of_sequence">({}, x); }

}  // namespace simplx
