// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/repeat.hpp
/// Each column several times, or each block of columns: one number for each head, spread over the head's columns; one
/// key for a group of queries.
///
///     repeat_columns(x, n)       y[:, n c + k] = x[:, c]              dx[:, c] = sum over k < n of dy[:, n c + k]
///     repeat_columns(x, n, w)    the same of blocks of w columns, c and n c + k being blocks

#include <simplx/ops/columns.hpp>

namespace simplx::inline SIMPLX_TARGET {

SIMPLX_RULE("repetitions", left >= 1, "repeat_columns(x, times) takes every column at least once (left number: times)")
SIMPLX_RULE("repeated blocks", left >= 1 && right % left == 0,
            "repeat_columns(x, times, width) takes blocks of `width` columns (left number), which has to divide the "
            "columns of x (right number)")
SIMPLX_RULE("sums of repeated", left >= 1 && right % left == 0,
            "sum_of_repeated(x, times, width) adds up groups of times * width columns (left number), which have to "
            "divide the columns of x (right number)")

namespace detail {

/// Of each block of `width` columns.
struct Copies {
  Index times, width;
};
constexpr Attributes attributes_of(const Copies& copies) { return {.integers = {copies.times, copies.width}}; }
constexpr Copies copies_in(Attributes attributes) { return {attributes.integers[0], attributes.integers[1]}; }

struct repeating_op : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static std::string settings(const Attributes& attributes) {
    const auto [times, width] = copies_in(attributes);
    return (width == 1 ? "each" : std::to_string(width) + " columns") + " " + std::to_string(times) + " times";
  }
  /// to, (blocks, times, width), gets each block of from, (blocks, width), `times` times; rows of `from` have `cols`.
  template <Write mode, class F, class S>
  static void spread_copies(const F& frame, Index cols, const S* from, S* to) {
    constexpr Index times = copies_in(F::attributes).times, width = copies_in(F::attributes).width;
    for (Index block = 0; block < frame.rows() * (cols / width); ++block, from += width) {
      for (Index k = 0; k < times; ++k, to += width) {
        for (Index c = 0; c < width; ++c) put<mode, S>(to + c, from[c]);
      }
    }
  }
  /// The transpose of that: to, (blocks, width), gets the sum over the copies.
  template <Write mode, class F, class S>
  static void sum_copies(const F& frame, Index cols, const S* from, S* to) {
    constexpr Index times = copies_in(F::attributes).times, width = copies_in(F::attributes).width;
    for (Index block = 0; block < frame.rows() * (cols / width); ++block, from += times * width, to += width) {
      for (Index c = 0; c < width; ++c) {
        S total = 0;
        for (Index k = 0; k < times; ++k) total += from[k * width + c];
        put<mode, S>(to + c, total);
      }
    }
  }
};

}  // namespace detail

template <>
struct op<"sum_of_repeated">;

template <>
struct op<"repeat_columns"> : detail::repeating_op {
  static constexpr Checked shape(const Attributes& attributes, Shape x) {
    const auto [times, width] = detail::copies_in(attributes);
    if (times < 1) return {"repetitions", times, 1};
    if (width < 1 || x.cols % width != 0) return {"repeated blocks", width, x.cols};
    return Shape{x.axis, x.rows, times * x.cols};
  }
  static constexpr Term derive(const auto* node, int, const Term& g) {  // a template: sum_of_repeated comes later
    return Term(apply<"sum_of_repeated">(node->attributes, detail::whole(g, node)));
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    spread_copies<Write::store>(frame, F::template shape<0>.cols, frame.template in<0>(), frame.out());
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    sum_copies<F::template write<0>>(frame, F::template shape<0>.cols, frame.out_grad(), frame.template grad<0>());
  }
};

/// Either is the pull-back of the other.
template <>
struct op<"sum_of_repeated"> : detail::repeating_op {
  static constexpr Checked shape(const Attributes& attributes, Shape x) {
    const auto [times, width] = detail::copies_in(attributes);
    if (times < 1) return {"repetitions", times, 1};
    if (width < 1 || x.cols % (times * width) != 0) return {"sums of repeated", times * width, x.cols};
    return Shape{x.axis, x.rows, x.cols / times};
  }
  static constexpr Term derive(const Node* node, int, const Term& g) {
    return Term(apply<"repeat_columns">(node->attributes, detail::whole(g, node)));
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    sum_copies<Write::store>(frame, F::out_shape.cols, frame.template in<0>(), frame.out());
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    spread_copies<F::template write<0>>(frame, F::out_shape.cols, frame.out_grad(), frame.template grad<0>());
  }
};

/// Each column of x `times` times, or each block of `width` columns, the copies beside each other.
///
/// Shapes  x (rows, C) -> (rows, C * times)
/// Errors  does not compile for less than one time, or blocks that do not divide C: rules "repetitions" and "repeated
///         blocks"
constexpr Expr repeat_columns(At x, Index times, Index width = 1) {
  return apply<"repeat_columns">(detail::attributes_of(detail::Copies{times, width}), x);
}

/// The sum of `times` columns beside each other, or blocks of `width` columns, where repeat_columns has copies.
///
/// Shapes  x (rows, C * times) -> (rows, C)
/// Errors  does not compile unless times * width divide the columns: rules "repetitions" and "sums of repeated"
constexpr Expr sum_of_repeated(At x, Index times, Index width = 1) {
  return apply<"sum_of_repeated">(detail::attributes_of(detail::Copies{times, width}), x);
}

}  // namespace simplx
