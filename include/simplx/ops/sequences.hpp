// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/sequences.hpp
/// Sequences as rows of their own: what is said of a whole one, and its tokens told of it.
///
///     sum_of_sequence(x)       y_s = sum of x_t over the tokens t of s     dx_t = dy_s
///     mean_of_sequence(x)      y_s = the same / tokens of s                dx_t = dy_s / tokens of s
///     repeat_over_sequence(x)  y_t = x_s, s the sequence of token t        dx_s = sum of dy_t
///
/// An empty sequence has zeros.

#include <simplx/core/rules.hpp>
#include <simplx/ops/rows.hpp>

namespace simplx::inline SIMPLX_TARGET {

SIMPLX_RULE("sequence rows", left == right,
            "this operand must have a row for each sequence (right number), not rows along another axis (left number: "
            "0 a static number, 1 tokens, 3 labelled, 4 batch): rows_of(Axis::sequences, ...)")

namespace detail {

/// Rows that are added up before they are added to others: as many as there are parts, so that a million rows lose
/// little more than a thousand.
SIMPLX_HD constexpr Index rows_of_part(Index rows) {
  Index part = 64;
  while (part * part < rows) part *= 2;
  return part;
}

struct sequence_op : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  /// Whether each token counts as one over the tokens of its sequence.
  static constexpr bool is_mean(Attributes attributes) { return attributes.integers[0] != 0; }
  static std::string settings(const Attributes& attributes) { return is_mean(attributes) ? "mean" : ""; }

  template <class F>
  static auto weight(Index tokens) {
    using S = typename F::Scalar;
    return is_mean(F::attributes) && tokens > 0 ? S(1) / static_cast<S>(static_cast<double>(tokens)) : S(1);
  }
  /// to_s = the sum of from_t, part by part.
  template <Write mode, class F, class S>
  static void sum(const F& frame, const S* from, S* to) {
    constexpr Index cols = F::out_shape.cols;
    frame.context.segments.each([&](Index s, Index begin, Index tokens) {
      const Index end = begin + tokens, together = rows_of_part(tokens);
      const S of_token = weight<F>(tokens);
      cpu::each_column<S, cols>([&]<class V>(Index c) {
        cpu::Register<V> total{};
        for (Index first = begin; first < end; first += together) {
          cpu::Register<V> part{};
          for (Index t = first; t < std::min(first + together, end); ++t) part += load<V>(from + t * cols + c);
          total += part;
        }
        put<mode, V>(to + s * cols + c, total * of_token);
      });
    });
  }
  /// to_t = from_s
  template <Write mode, class F, class S>
  static void repeat(const F& frame, const S* from, S* to) {
    constexpr Index cols = F::out_shape.cols;
    frame.context.segments.each([&](Index s, Index begin, Index tokens) {
      const S of_token = weight<F>(tokens);
      cpu::each_column<S, cols>([&]<class V>(Index c) {
        const cpu::Register<V> x = load<V>(from + s * cols + c) * of_token;
        for (Index t = begin; t < begin + tokens; ++t) put<mode, V>(to + t * cols + c, x);
      });
    });
  }
};

}  // namespace detail

template <>
struct op<"sum_of_sequence"> : detail::sequence_op {
  static constexpr Checked shape(const Attributes&, Shape x) {
    if (x.axis != Axis::tokens) return {"token rows", static_cast<Index>(x.axis), static_cast<Index>(Axis::tokens)};
    return rows_of(Axis::sequences, x.cols);
  }
  static constexpr Term derive(const auto* node, int, const Term& g) {  // a template: its pull-back comes later
    return Term(apply<"repeat_over_sequence">(node->attributes, detail::whole(g, node)));
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    sum<Write::store>(frame, frame.template in<0>(), frame.out());
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    repeat<F::template write<0>>(frame, frame.out_grad(), frame.template grad<0>());
  }
};

/// Either is the pull-back of the other.
template <>
struct op<"repeat_over_sequence"> : detail::sequence_op {
  static constexpr Checked shape(const Attributes&, Shape x) {
    if (x.axis != Axis::sequences) {
      return {"sequence rows", static_cast<Index>(x.axis), static_cast<Index>(Axis::sequences)};
    }
    return rows_of(Axis::tokens, x.cols);
  }
  static constexpr Term derive(const Node* node, int, const Term& g) {
    return Term(apply<"sum_of_sequence">(node->attributes, detail::whole(g, node)));
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    repeat<Write::store>(frame, frame.template in<0>(), frame.out());
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    sum<F::template write<0>>(frame, frame.out_grad(), frame.template grad<0>());
  }
};

/// The sum of the tokens of each sequence.
///
/// Shapes  x (tokens, C) -> (sequences, C)
/// Errors  does not compile along another axis: rule "token rows"
constexpr Expr sum_of_sequence(At x) { return apply<"sum_of_sequence">({.integers = {0}}, x); }

/// The same divided by the tokens of each sequence: what a classifier reads of all of them.
///
/// Shapes  as sum_of_sequence
/// Errors  as sum_of_sequence
constexpr Expr mean_of_sequence(At x) { return apply<"sum_of_sequence">({.integers = {1}}, x); }

/// What is known of a sequence, such as a condition or a mask, for each of its tokens.
///
/// Shapes  x (sequences, C) -> (tokens, C)
/// Errors  does not compile along another axis: rule "sequence rows"
constexpr Expr repeat_over_sequence(At x) { return apply<"repeat_over_sequence">({.integers = {0}}, x); }

}  // namespace simplx
