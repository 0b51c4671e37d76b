// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/repeat.hpp
/// Each column several times: one number for each head, spread over the head's columns.
///
///     repeat_columns(x, n)    y[:, n c + k] = x[:, c]        dx[:, c] = sum over k < n of dy[:, n c + k]

#include <simplx/ops/batched_matmul.hpp>
#include <simplx/ops/columns.hpp>

namespace simplx::inline SIMPLX_TARGET {

SIMPLX_RULE("repetitions", left >= 1, "repeat_columns(x, times) takes every column at least once (left number: times)")

template <>
struct op<"repeat_columns"> : kernel_op {
  static constexpr Checked shape(const Attributes& attributes, Shape x) {
    const Index times = attributes.integers[0];
    if (times < 1) return {"repetitions", times, 1};
    return Shape{x.axis, x.rows, times * x.cols};
  }
  static std::string settings(const Attributes& attributes) {
    return "each " + std::to_string(attributes.integers[0]) + " times";
  }
  /// The sum over the copies: each row of dy is a matrix of `times` columns, multiplied by a column of ones.
  static constexpr Term derive(const Node* node, int, const Term& g) {
    const At dy = detail::whole(g, node);
    const Index times = node->attributes.integers[0], cols = node->arguments[0]->shape.cols;
    const At column = spread(1.0, At(slice_columns(dy, 0, times)));
    return Term(apply<"batched_matmul">({.integers = {cols, times, 1}}, dy, column));
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Index times = F::attributes.integers[0];
    const S* x = frame.template in<0>();
    for (Index i = 0; i < frame.rows() * F::template shape<0>.cols; ++i) {
      std::fill_n(frame.out() + i * times, times, x[i]);
    }
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index times = F::attributes.integers[0];
    const S* dy = frame.out_grad();
    S* dx = frame.template grad<0>();
    for (Index i = 0; i < frame.rows() * F::template shape<0>.cols; ++i, dy += times) {
      S total = 0;
      for (Index k = 0; k < times; ++k) total += dy[k];
      if constexpr (F::template write<0> == Write::accumulate) {
        dx[i] += total;
      } else {
        dx[i] = total;
      }
    }
  }
};

/// Each column of x `times` times, the copies beside each other.
///
/// Shapes  x (rows, C) -> (rows, C * times)
/// Errors  does not compile for less than one time: rule "repetitions"
constexpr Expr repeat_columns(At x, Index times) { return apply<"repeat_columns">({.integers = {times}}, x); }

}  // namespace simplx
