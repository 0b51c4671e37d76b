// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/embedding.hpp
/// Looking rows of a table up: by token, and by position in the sequence.
///
///     embedding   y_r = table[index_r]            dtable[index_r] += dy_r
///     positions   y_r = table[r - start of its sequence]
///
/// Indices are in [0, rows of the table), sequences no longer than the positions: who takes them from a caller checks
/// that (core/inputs.hpp), kernels do not.

#include <simplx/ops/kernel.hpp>

#include <cstring>

namespace simplx::inline SIMPLX_TARGET {

template <>
struct op<"embedding"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr int index_operand = 1;
  static constexpr Shape looked_up(Shape table) { return table; }
  static constexpr Checked shape(const Attributes&, Shape table, Shape index) {
    return rows_of(index.axis, table.cols);
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Index d = F::out_shape.cols;
    const std::int32_t* index = frame.template indices<1>();
    for (Index row = 0; row < frame.rows(); ++row) {
      std::memcpy(frame.out() + row * d, frame.template in<0>() + index[row] * d, sizeof(S) * d);
    }
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index d = F::out_shape.cols;
    const std::int32_t* index = frame.template indices<1>();
    const S* dy = frame.out_grad();
    if constexpr (F::template write<0> == Write::store) {  // a table that was computed for these rows
      std::fill_n(frame.template grad<0>(), frame.template rows_in<0>() * d, S(0));
    }
    for (Index row = 0; row < frame.rows(); ++row, dy += d) {
      S* place = frame.template grad<0>() + index[row] * d;
      for (Index c = 0; c < d; ++c) place[c] += dy[c];
    }
  }
};

template <>
struct op<"positions"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr Checked shape(const Attributes&, Shape table) {
    if (!table.is_fixed()) return {"static positions", static_cast<Index>(table.axis), 0};
    return rows_of(Axis::tokens, table.cols);
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Index d = F::out_shape.cols;
    frame.context.segments.each([&](Index sequence, Index first, Index rows) {
      std::memcpy(frame.out() + first * d, frame.template in<0>() + frame.context.past_of(sequence) * d,
                  sizeof(S) * static_cast<std::size_t>(rows * d));
    });
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index d = F::out_shape.cols;
    frame.context.segments.each([&](Index, Index first, Index rows) {
      const S* dy = frame.out_grad() + first * d;
      S* place = frame.template grad<0>();
      for (Index i = 0; i < rows * d; ++i) place[i] += dy[i];
    });
  }
};

/// The row of the table for each index.
///
/// Shapes  table (V, d), V static or an axis; index (rows) -> (rows, d)
/// Errors  does not compile unless the second operand is indices(...): rule "indices"
constexpr Expr embedding(At table, At index) {
  Expr result = apply<"embedding">({}, table, index);
  if (result.node->kind != Kind::error && index.node->kind != Kind::indices) {
    detail::broken(result.node, "indices", 0, 1);
  }
  return result;
}

/// The row of the table for each token's position in its sequence.
///
/// Shapes  table (context, d), static -> (tokens, d); sequences are at most `context` long
/// Errors  does not compile for a table of run-time rows: rule "static positions"
constexpr Expr positions(At table) { return apply<"positions">({}, table); }

}  // namespace simplx
