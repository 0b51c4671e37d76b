// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/batched_matmul.hpp
/// A small product for each row: the row holds a matrix, row by row.
///
///     Y_r = A_r B_r,   dA_r = dY_r B_r^T,   dB_r = A_r^T dY_r

#include <simplx/ops/kernel.hpp>

namespace simplx::inline SIMPLX_TARGET {

SIMPLX_RULE("batched sizes", left == right,
            "batched_matmul(a, b, rows, inner, cols): a must have rows * inner columns and b inner * cols (left "
            "number: the columns it has, right number: those it needs)")

template <>
struct op<"batched_matmul"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr bool reads(int to, int operand) { return to != operand; }
  static constexpr Checked shape(const Attributes& attributes, Shape a, Shape b) {
    const auto [rows, inner, cols, unused] = attributes.integers;
    if (a.axis != b.axis || a.rows != b.rows) return unequal_rows(a, b);
    if (a.cols != rows * inner) return {"batched sizes", a.cols, rows * inner};
    if (b.cols != inner * cols) return {"batched sizes", b.cols, inner * cols};
    return Shape{a.axis, a.rows, rows * cols};
  }
  static std::string settings(const Attributes& attributes) {
    const auto [rows, inner, cols, unused] = attributes.integers;
    return std::to_string(rows) + " x " + std::to_string(inner) + " by " + std::to_string(inner) + " x " +
           std::to_string(cols);
  }
  template <class F>
  struct Size {
    static constexpr int rows = static_cast<int>(F::attributes.integers[0]);
    static constexpr int inner = static_cast<int>(F::attributes.integers[1]);
    static constexpr int cols = static_cast<int>(F::attributes.integers[2]);
  };
  template <class F>
  static constexpr double flops(const Rows& rows, bool) {
    using Is = Size<F>;
    const Shape a = F::template shape<0>;
    return 2.0 * static_cast<double>(rows.count(a)) * Is::rows * Is::inner * Is::cols;
  }
  /// A matrix of static size; a single column is stored the same way either way.
  template <class S, int rows, int cols>
  using Small = Eigen::Matrix<S, rows, cols, cols == 1 ? Eigen::ColMajor : Eigen::RowMajor>;

  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    using Is = Size<F>;
    for (Index r = 0; r < frame.rows(); ++r) {
      const Eigen::Map<const Small<S, Is::rows, Is::inner>> a(frame.template in<0>() + r * Is::rows * Is::inner);
      const Eigen::Map<const Small<S, Is::inner, Is::cols>> b(frame.template in<1>() + r * Is::inner * Is::cols);
      Eigen::Map<Small<S, Is::rows, Is::cols>>(frame.out() + r * Is::rows * Is::cols) = a.lazyProduct(b);
    }
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    using Is = Size<F>;
    const auto write = []<Write mode>(std::integral_constant<Write, mode>, auto target, const auto& product) {
      if constexpr (mode == Write::store) {
        target = product;
      } else {
        target += product;
      }
    };
    for (Index r = 0; r < frame.rows(); ++r) {
      const Eigen::Map<const Small<S, Is::rows, Is::cols>> g(frame.out_grad() + r * Is::rows * Is::cols);
      if constexpr (F::template write<0> != Write::skip) {
        const Eigen::Map<const Small<S, Is::inner, Is::cols>> b(frame.template in<1>() + r * Is::inner * Is::cols);
        write(std::integral_constant<Write, F::template write<0>>{},
              Eigen::Map<Small<S, Is::rows, Is::inner>>(frame.template grad<0>() + r * Is::rows * Is::inner),
              g.lazyProduct(b.transpose()));
      }
      if constexpr (F::template write<1> != Write::skip) {
        const Eigen::Map<const Small<S, Is::rows, Is::inner>> a(frame.template in<0>() + r * Is::rows * Is::inner);
        write(std::integral_constant<Write, F::template write<1>>{},
              Eigen::Map<Small<S, Is::inner, Is::cols>>(frame.template grad<1>() + r * Is::inner * Is::cols),
              a.transpose().lazyProduct(g));
      }
    }
  }
};

/// One small product for each row.
///
/// Shapes  a (n, rows * inner), b (n, inner * cols) -> (n, rows * cols)
/// Errors  does not compile unless the widths are these products: rule "batched sizes"
constexpr Expr batched_matmul(At a, At b, Index rows, Index inner, Index cols) {
  return apply<"batched_matmul">({.integers = {rows, inner, cols}}, a, b);
}

}  // namespace simplx
