// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/columns.hpp
/// Taking columns apart and putting them together.
///
///     slice_columns(x, b, n)    y = x[:, b : b + n]      dx[:, b : b + n] += dy
///     concatenate(a, b, ...)    y = [a b ...]            da = its columns of dy, and so on

#include <simplx/ops/kernel.hpp>

namespace simplx::inline SIMPLX_TARGET {

SIMPLX_RULE("slice", left <= right,
            "a slice must end inside x: begin + count (left number) may be at most the columns, of slice_rows the "
            "rows, of x (right number)")
SIMPLX_RULE("slice begin", left >= 0 && right >= 1,
            "a slice begins at 0 or later (left number) and takes at least 1 column or row (right number)")
SIMPLX_RULE("halves", left % 2 == 0, "split_columns(x) makes two equal halves: x needs an even width (left number)")

namespace detail {

/// Columns or rows that are taken.
struct Slice {
  Index begin, count;
  constexpr Index end() const { return begin + count; }
};
constexpr Attributes attributes_of(const Slice& slice) { return {.integers = {slice.begin, slice.count}}; }
constexpr Slice slice_in(Attributes attributes) { return {attributes.integers[0], attributes.integers[1]}; }
/// "2 to 5": the first and the last.
inline std::string range_text(const Slice& slice) {
  return std::to_string(slice.begin) + " to " + std::to_string(slice.end() - 1);
}

/// The columns of a matrix from `begin` on; a matrix without rows may be nowhere.
template <class S>
struct ColumnsFrom {
  S* matrix;
  Index width, begin = 0;
  S* row(Index i) const { return matrix + i * width + begin; }
};

/// Copies or adds a block of columns between matrices of different widths.
template <Write mode, class S>
void move_columns(Index rows, Index cols, ColumnsFrom<const S> source, ColumnsFrom<S> target) {
  for (Index i = 0; i < rows; ++i) {
    const S* const from = source.row(i);
    S* const to = target.row(i);
    for (Index c = 0; c < cols; ++c) put<mode, S>(to + c, from[c]);
  }
}

}  // namespace detail

template <>
struct op<"concatenate">;

template <>
struct op<"slice_columns"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr Checked shape(const Attributes& attributes, Shape x) {
    const auto [begin, count] = detail::slice_in(attributes);
    if (begin < 0 || count < 1) return {"slice begin", begin, count};
    if (begin + count > x.cols) return {"slice", begin + count, x.cols};
    return Shape{x.axis, x.rows, count};
  }
  static std::string settings(const Attributes& attributes) {
    return "columns " + detail::range_text(detail::slice_in(attributes));
  }
  /// The gradient between columns of zeros.
  static constexpr Term derive(const auto* node, int, const Term& g) {  // a template: concatenate comes later
    const auto x = detail::argument(node, 0), dy = detail::whole(g, node);
    const Index begin = detail::slice_in(node->attributes).begin, end = detail::slice_in(node->attributes).end();
    const Index width = x.shape().cols;
    const auto zeros_like = [&](Index first, Index count) {
      return At(spread(0.0, At(apply<"slice_columns">(detail::attributes_of(detail::Slice{first, count}), x))));
    };
    if (begin == 0 && end == width) return Term(Expr{dy.node});
    if (begin == 0) return Term(apply<"concatenate">({}, dy, zeros_like(end, width - end)));
    if (end == width) return Term(apply<"concatenate">({}, zeros_like(0, begin), dy));
    return Term(apply<"concatenate">({}, zeros_like(0, begin), dy, zeros_like(end, width - end)));
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Index begin = detail::slice_in(F::attributes).begin, count = F::out_shape.cols;
    constexpr Index width = F::template shape<0>.cols;
    detail::move_columns<Write::store, S>(frame.rows(), count, {frame.template in<0>(), width, begin},
                                          {frame.out(), count});
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index begin = detail::slice_in(F::attributes).begin, count = F::out_shape.cols;
    constexpr Index width = F::template shape<0>.cols;
    S* dx = frame.template grad<0>();
    if constexpr (F::template write<0> == Write::store) std::fill_n(dx, frame.rows() * width, S(0));
    detail::move_columns<Write::accumulate, S>(frame.rows(), count, {frame.out_grad(), count}, {dx, width, begin});
  }
};

template <>
struct op<"concatenate"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  template <class... Shapes>
  static constexpr Checked shape(const Attributes&, Shape first, Shapes... others) {
    Shape result = first;
    for (const Shape& s : {first, Shape(others)...}) {
      if (s.axis != first.axis || s.rows != first.rows) return unequal_rows(s, first);
    }
    result.cols = (first.cols + ... + others.cols);
    return result;
  }
  static constexpr Term derive(const Node* node, int argument, const Term& g) {
    Index begin = 0;
    for (int i = 0; i < argument; ++i) begin += node->arguments[i]->shape.cols;
    const Index count = node->arguments[argument]->shape.cols;
    return Term(apply<"slice_columns">(detail::attributes_of(detail::Slice{begin, count}), detail::whole(g, node)));
  }
  /// Calls f<k>(first column of operand k).
  template <class F, class Visit>
  static void each(Visit visit) {
    Index begin = 0;
    detail::unroll<0, F::info.argument_count>([&]<int k>(std::integral_constant<int, k> index) {
      visit(index, begin);
      begin += F::template shape<k>.cols;
    });
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    each<F>([&]<int k>(std::integral_constant<int, k>, Index begin) {
      constexpr Index cols = F::template shape<k>.cols;
      detail::move_columns<Write::store, S>(frame.rows(), cols, {frame.template in<k>(), cols},
                                            {frame.out(), F::out_shape.cols, begin});
    });
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    each<F>([&]<int k>(std::integral_constant<int, k>, Index begin) {
      constexpr Index cols = F::template shape<k>.cols;
      if constexpr (F::template write<k> != Write::skip) {
        detail::move_columns<F::template write<k>, S>(frame.rows(), cols, {frame.out_grad(), F::out_shape.cols, begin},
                                                      {frame.template grad<k>(), cols});
      }
    });
  }
};

/// `count` columns of x from `begin` on.
///
/// Shapes  x (rows, C) -> (rows, count)
/// Errors  does not compile if the slice leaves x: rules "slice" and "slice begin"
constexpr Expr slice_columns(At x, Index begin, Index count) {
  return apply<"slice_columns">(detail::attributes_of(detail::Slice{begin, count}), x);
}

/// The two halves of the columns of x.
struct Halves {
  Expr first, second;
};
constexpr Halves split_columns(At x) {
  const Index half = x.shape().cols / 2;
  if (x.shape().cols % 2) return {refuse("halves", x, x.shape().cols), refuse("halves", x, x.shape().cols)};
  return {slice_columns(x, 0, half), slice_columns(x, half, half)};
}

/// Columns beside each other: (rows, A), (rows, B), ... -> (rows, A + B + ...), two to eight operands.
template <class... More>
constexpr Expr concatenate(At first, At second, const More&... more) {
  return apply<"concatenate">({}, first, second, At(more)...);
}

}  // namespace simplx
