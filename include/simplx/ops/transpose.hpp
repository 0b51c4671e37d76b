// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/transpose.hpp
/// Transposes, and the product that sums over rows: Y = A^T B.
///
///     dA = B dY^T,   dB = A dY

#include <simplx/cpu/dual_product.hpp>
#include <simplx/ops/kernel.hpp>

namespace simplx::inline SIMPLX_TARGET {

template <>
struct op<"matmul">;

/// A copy W^T of a static matrix; as an operand of a product it is read in place and costs nothing.
template <>
struct op<"transpose"> : kernel_op {
  static constexpr Checked shape(const Attributes&, Shape x) {
    if (!x.is_fixed()) return {"static transpose", static_cast<Index>(x.axis), 0};
    return fixed_shape(x.cols, x.rows);
  }
  static constexpr Term derive(const Node* node, int, const Term& g) {
    return Term(apply<"transpose">({}, detail::whole(g, node)));
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Shape s = F::template shape<0>;
    cpu::MatrixMap<S>(frame.out(), s.cols, s.rows) =
        cpu::ConstMatrixMap<S>(frame.template in<0>(), s.rows, s.cols).transpose();
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Shape s = F::template shape<0>;
    cpu::MatrixMap<S>(frame.template grad<0>(), s.rows, s.cols) +=
        cpu::ConstMatrixMap<S>(frame.out_grad(), s.cols, s.rows).transpose();
  }
};

/// A^T B, summed over the rows that A and B share.
template <>
struct op<"contract"> : kernel_op {
  static constexpr bool reads(int to, int operand) { return to != operand; }
  static constexpr Checked shape(const Attributes&, Shape a, Shape b) {
    if (a.is_fixed() && !b.is_fixed()) return {"matrix on the left", a.cols, a.rows};
    if (a.axis != b.axis || a.rows != b.rows) return unequal_rows(a, b);
    return fixed_shape(a.cols, b.cols);
  }
  static constexpr Term derive(const auto* node, int argument, const Term& g) {  // a template: matmul comes later
    const auto dy = detail::whole(g, node), other = detail::argument(node, 1 - argument);
    return Term(apply<"matmul">({.integers = {argument == 0}}, other, dy));  // B dY^T, A dY
  }
  template <class F>
  static constexpr double flops(const Rows& rows, bool) {
    const Shape a = F::template shape<0>;
    const double count = static_cast<double>(rows.count(a));
    return 2 * count * static_cast<double>(a.cols) * static_cast<double>(F::out_shape.cols);
  }
  template <int k, class S, class F>
  static cpu::ConstMatrixMap<S> matrix(const F& frame) {
    return {frame.template in<k>(), frame.template rows_in<k>(), F::template shape<k>.cols};
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    cpu::MatrixMap<S> y(frame.out(), F::out_shape.rows, F::out_shape.cols);
    y.setZero();
    cpu::add_product(y, matrix<0, S>(frame).transpose(), matrix<1, S>(frame));
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    const cpu::ConstMatrixMap<S> g(frame.out_grad(), F::out_shape.rows, F::out_shape.cols);
    write<0>(frame, matrix<1, S>(frame), g.transpose());
    write<1>(frame, matrix<0, S>(frame), g);
  }

 private:
  template <int k, class F, class A, class B>
  static void write(const F& frame, const A& a, const B& b) {
    constexpr Write mode = F::template write<k>;
    if constexpr (mode != Write::skip) {
      cpu::MatrixMap<typename F::Scalar> target(frame.template grad<k>(), frame.template rows_in<k>(),
                                                F::template shape<k>.cols);
      if constexpr (mode == Write::store) target.setZero();
      cpu::add_product(target, a, b);
    }
  }
};

/// x^T.
///
/// Shapes  x (R, C) -> (C, R)
/// Errors  does not compile for rows along an axis, except in transpose(x) * y: rule "static transpose"
/// Cost    a copy; none where a product reads it in place: x * transpose(w), and transpose(x) * y over rows of an axis
constexpr Expr transpose(At x) { return apply<"transpose">({}, x); }

}  // namespace simplx
