// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/softmax.hpp
/// Softmax and its relatives over the columns of each row, none of which overflows:
///
///     softmax        y = exp(x - L)        dx = y (g - sum(g y))
///     log_softmax    y = x - L             dx = g - exp(y) sum(g)
///     log_sum_exp    L = log sum exp x     dx = g softmax(x)

#include <simplx/ops/norm.hpp>
#include <simplx/ops/reduce.hpp>
#include <simplx/ops/stop_gradient.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// The largest element of a row.
template <Index cols, class S>
S highest_of(const S* x) {
  if constexpr (cols < lanes<S>) {
    S highest = x[0];
    for (Index c = 1; c < cols; ++c) highest = max(highest, x[c]);
    return highest;
  } else {
    Vec<S> highest = load<Vec<S>>(x);
    for (Index c = lanes<S>; c + lanes<S> <= cols; c += lanes<S>) highest = max(highest, load<Vec<S>>(x + c));
    if constexpr (cols % lanes<S> != 0) highest = max(highest, load<Vec<S>>(x + cols - lanes<S>));
    return largest(highest);
  }
}

/// log sum exp(x - highest) of a row. With `highest` apart nothing is rounded away where all of x is far from 0.
template <Index cols, class S>
S log_sum_below(const S* x, S highest) {
  return log(sum_columns<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
    return exp(V(load<V>(x + c) - splat<V>(highest)));
  }));
}

/// log sum exp of a row.
template <Index cols, class S>
S log_sum_exp_of(const S* x) {
  const S highest = highest_of<cols>(x);
  if (!(highest > S(-std::numeric_limits<double>::infinity()))) {  // a row of -inf, and NaN, which max leaves out
    return sum_columns<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) { return load<V>(x + c); });
  }
  return highest + log_sum_below<cols>(x, highest);
}

/// y = softmax(x) of all rows, each exponential once, NaN in a row of -inf; where L is wanted, L[row] = log sum exp of
/// the row.
template <Index cols, bool wants_log_sum, class S>
void softmax_of_rows(Index rows, const S* x, S* y, [[maybe_unused]] S* L) {
  constexpr Index block = 64;  // rows at a time, which stay in the cache
  S highest[block], total[block];
  for (Index begin = 0; begin < rows; begin += block) {
    const Index count = std::min(block, rows - begin);
    S* const first = y + begin * cols;
    for (Index row = 0; row < count; ++row) {
      const S* from = x + (begin + row) * cols;
      highest[row] = highest_of<cols>(from);
      each_column<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
        store(first + row * cols + c, V(load<V>(from + c) - splat<V>(highest[row])));
      });
    }
    // Rows end anywhere in a vector, so that narrow ones are as fast as wide ones.
    each_element<S, 1, true>(count * cols, [&]<class V>(Index, Index i) __attribute__((always_inline)) {
      store(first + i, exp(load<V>(first + i)));
    });
    for (Index row = 0; row < count; ++row) {
      S* to = first + row * cols;
      total[row] = sum_columns<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
        return load<V>(to + c);
      });
      const S share = S(1) / total[row];
      each_column<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
        store(to + c, V(load<V>(to + c) * splat<V>(share)));
      });
    }
    if constexpr (wants_log_sum) {
      each_element<S, 1, true>(count, [&]<class V>(Index, Index i) __attribute__((always_inline)) {
        const V most = load<V>(highest + i), zero = most - most;  // NaN where it is infinite, as L then is
        store(L + begin + i, select(zero == zero, V(most + log(load<V>(total + i))), most));
      });
    }
  }
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
    detail::softmax_of_rows<F::out_shape.cols, false, S>(frame.rows(), frame.template in<0>(), frame.out(), nullptr);
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
      const S highest = detail::highest_of<cols>(x), log_sum = detail::log_sum_below<cols>(x, highest);
      for (Index c = 0; c < cols; ++c) y[c] = (x[c] - highest) - log_sum;
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
  static constexpr Checked shape(const Attributes&, Shape x) { return Shape{x.axis, x.rows, 1}; }
  static constexpr Index saved(const Attributes&, Shape x) { return x.cols; }  // softmax(x)
  static constexpr Term derive(const Node* node, int, const Term& g) {
    return g * exp(Term(Expr{node->arguments[0]}) - Term(Expr{const_cast<Node*>(node)}));
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    detail::softmax_of_rows<F::template shape<0>.cols, true>(frame.rows(), frame.template in<0>(), frame.saved(),
                                                             frame.out());
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index cols = F::template shape<0>.cols;
    const S *y = frame.saved(), *g = frame.out_grad();
    S* dx = frame.template grad<0>();
    for (Index row = 0; row < frame.rows(); ++row, y += cols, dx += cols) {
      detail::each_column<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
        detail::put<F::template write<0>>(dx + c, V(load<V>(y + c) * splat<V>(g[row])));
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
/// Cost    over columns one node that keeps softmax(x); otherwise a maximum and a sum that keeps its exponentials
constexpr Expr log_sum_exp(At x, Over over = Over::all) {
  if (over == Over::columns) return apply<"log_sum_exp">({}, x);
  auto largest = maximum(x, over);
  auto highest = stop_gradient(largest);  // a gradient would cancel
  auto finite = highest - highest + 1.0;  // else NaN: where the largest is infinite, so is the result, by that alone
  auto origin = select(finite, highest, 0.0);
  auto rest = log(sum(exp(apply<"subtract">({}, x, At(origin))), over));
  return select(finite, origin + rest, highest);
}

}  // namespace simplx
