// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/softmax.hpp
/// Softmax and its relatives over the columns of each row, none of which overflows:
///
///     softmax        y = exp(x - L)        dx = y (g - sum(g y))
///     log_softmax    y = x - L             dx = g - exp(y) sum(g)
///     log_sum_exp    L = log sum exp x     dx = g exp(x - L)

#include <simplx/ops/norm.hpp>
#include <simplx/ops/reduce.hpp>
#include <simplx/ops/stop_gradient.hpp>

namespace simplx {

namespace detail {

/// log sum exp of a row.
template <Index cols, class S>
S log_sum_exp_of(const S* x) {
  S highest = x[0];
  Vec<S> highest_of = splat<Vec<S>>(highest);
  each_column<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
    if constexpr (std::is_same_v<V, S>) {
      highest = max(highest, load<V>(x + c));
    } else {
      highest_of = max(highest_of, load<V>(x + c));
    }
  });
  highest = max(highest, largest(highest_of));
  if (!(highest > S(-std::numeric_limits<double>::infinity()))) return highest;  // a row of -inf
  return highest + log(sum_columns<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
           return exp(V(load<V>(x + c) - splat<V>(highest)));
         }));
}

/// What both softmaxes share: shapes, and a pull-back that reads the result.
struct softmax_op : kernel_op {
  static constexpr bool needs_output = true;
  static constexpr Checked shape(const Attributes&, Shape x) { return x; }
};

}  // namespace detail

template <>
struct op<"softmax"> : detail::softmax_op {
  static constexpr Term derive(const Node* node, int, const Term& g) {
    const Term y(Expr{const_cast<Node*>(node)});
    return y * (g - Term(sum((g * y).operand(), Over::columns)));
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Index cols = F::out_shape.cols;
    const S* x = frame.template in<0>();
    S* y = frame.out();
    for (Index row = 0; row < frame.rows(); ++row, x += cols, y += cols) {
      const S shift = detail::log_sum_exp_of<cols>(x);
      detail::each_column<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
        store(y + c, exp(V(load<V>(x + c) - splat<V>(shift))));
      });
    }
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index cols = F::out_shape.cols;
    const S *y = frame.out(), *g = frame.out_grad();
    S* dx = frame.template grad<0>();
    for (Index row = 0; row < frame.rows(); ++row, y += cols, g += cols, dx += cols) {
      const S along = detail::sum_columns<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
        return V(load<V>(g + c) * load<V>(y + c));
      });
      detail::each_column<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
        detail::put<F::template write<0>>(dx + c, V(load<V>(y + c) * (load<V>(g + c) - splat<V>(along))));
      });
    }
  }
};

template <>
struct op<"log_softmax"> : detail::softmax_op {
  static constexpr Term derive(const Node* node, int, const Term& g) {
    const Term y(Expr{const_cast<Node*>(node)});
    return g - exp(y) * Term(sum(detail::whole(g, node), Over::columns));
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Index cols = F::out_shape.cols;
    const S* x = frame.template in<0>();
    S* y = frame.out();
    for (Index row = 0; row < frame.rows(); ++row, x += cols, y += cols) {
      const S shift = detail::log_sum_exp_of<cols>(x);
      for (Index c = 0; c < cols; ++c) y[c] = x[c] - shift;
    }
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index cols = F::out_shape.cols;
    const S *y = frame.out(), *g = frame.out_grad();
    S* dx = frame.template grad<0>();
    for (Index row = 0; row < frame.rows(); ++row, y += cols, g += cols, dx += cols) {
      const S total = detail::sum_columns<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
        return load<V>(g + c);
      });
      detail::each_column<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
        detail::put<F::template write<0>>(dx + c, V(load<V>(g + c) - exp(load<V>(y + c)) * splat<V>(total)));
      });
    }
  }
};

template <>
struct op<"log_sum_exp"> : kernel_op {
  static constexpr bool needs_inputs = true;
  static constexpr bool needs_output = true;
  static constexpr Checked shape(const Attributes&, Shape x) { return Shape{x.axis, x.rows, 1}; }
  static constexpr Term derive(const Node* node, int, const Term& g) {
    return g * exp(Term(Expr{node->arguments[0]}) - Term(Expr{const_cast<Node*>(node)}));
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Index cols = F::template shape<0>.cols;
    const S* x = frame.template in<0>();
    for (Index row = 0; row < frame.rows(); ++row) frame.out()[row] = detail::log_sum_exp_of<cols>(x + row * cols);
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index cols = F::template shape<0>.cols;
    const S *x = frame.template in<0>(), *y = frame.out(), *g = frame.out_grad();
    S* dx = frame.template grad<0>();
    for (Index row = 0; row < frame.rows(); ++row, x += cols, dx += cols) {
      detail::each_column<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
        detail::put<F::template write<0>>(dx + c, V(exp(V(load<V>(x + c) - splat<V>(y[row]))) * splat<V>(g[row])));
      });
    }
  }
};

/// exp(x) / sum(exp(x)) over the columns of each row.
///
/// Cost    keeps its result
constexpr Expr softmax(At x) { return apply<"softmax">({}, x); }

/// The logarithm of softmax.
///
/// Cost    keeps its result
constexpr Expr log_softmax(At x) { return apply<"log_softmax">({}, x); }

/// log(sum(exp(x))) over columns, rows or everything.
///
/// Cost    over columns one node that keeps x; otherwise a maximum and a sum
constexpr Expr log_sum_exp(At x, Over over = Over::all) {
  if (over == Over::columns) return apply<"log_sum_exp">({}, x);
  auto highest = stop_gradient(maximum(x, over));  // its gradient would cancel
  return highest + log(sum(exp(apply<"subtract">({}, x, At(highest))), over));
}

}  // namespace simplx
