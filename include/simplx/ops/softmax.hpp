// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/softmax.hpp
/// Softmax and its relatives over the columns of each row, the last one also over rows or all; none overflows:
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
  if constexpr (cols < lanes<S> && cpu::takes_part<S, cols>) {
    using Row = cpu::Part<S, cols>;
    return largest(cpu::counted<Row>(load<Row>(x), splat<Row>(-std::numeric_limits<S>::infinity())));
  } else if constexpr (cols < lanes<S>) {
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

/// NaN if a row has one, which highest_of may not see; else 0.
template <Index cols, class S>
S nan_of(const S* x) {
  S found = S(0);
  for (Index c = 0; c < cols; ++c) {
    if (!(x[c] == x[c])) found = x[c];
  }
  return found;
}

/// sum exp(x - highest) of a row; visit<V>(c, e) sees the exponentials. With `highest` apart nothing is rounded away
/// where all of x is far from 0.
template <Index cols, class S, class Visit>
__attribute__((always_inline)) inline S sum_below(const S* x, S highest, const Visit& visit) {
  return cpu::sum_columns<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
    const cpu::Register<V> e = exp(cpu::Register<V>(load<V>(x + c) - splat<V>(highest)));
    visit.template operator()<V>(c, e);
    return e;
  });
}
template <Index cols, class S>
S sum_below(const S* x, S highest) {
  return sum_below<cols>(x, highest, []<class V>(Index, cpu::Register<V>) {});
}

/// Rows at a time: each step is taken for all of them before the next, which then need not wait for it.
inline constexpr Index rows_at_once = 64;

/// y = f(y) for each of `count` numbers, by vectors.
template <class S, class F>
__attribute__((always_inline)) inline void change_each(Index count, S* y, const F& f) {
  cpu::each_element<S, 1, true>(count, [&]<class V>(Index, Index i) __attribute__((always_inline)) {
    store(y + i, V(f(load<V>(y + i))));
  });
}

/// Calls visit(row, highest, log sum exp(x - highest)) for all rows; with zeros for those that do not count.
template <Index cols, class S, class Counts, class Visit>
__attribute__((always_inline)) inline void log_sums_below(Index rows, const S* x, const Counts& counts,
                                                          const Visit& visit) {
  S highest[rows_at_once], sum[rows_at_once];
  for (Index begin = 0; begin < rows; begin += rows_at_once) {
    const Index count = std::min(rows_at_once, rows - begin);
    const S* const from = x + begin * cols;
    for (Index i = 0; i < count; ++i) highest[i] = counts(begin + i) ? highest_of<cols>(from + i * cols) : S(0);
    for (Index i = 0; i < count; ++i) {
      sum[i] = counts(begin + i) ? sum_below<cols>(from + i * cols, highest[i]) : S(1);
    }
    change_each(count, sum, [](auto s) { return log(s); });
    for (Index i = 0; i < count; ++i) visit(begin + i, highest[i], sum[i]);
  }
}

/// y = softmax(x) of all rows, each exponential once, NaN in a row of -inf; where L is wanted, L[row] = log sum exp of
/// the row.
template <Index cols, bool wants_log_sum, class S>
void softmax_of_rows(Index rows, const S* x, S* y, [[maybe_unused]] S* L) {
  S highest[rows_at_once], total[rows_at_once];
  for (Index begin = 0; begin < rows; begin += rows_at_once) {
    const Index count = std::min(rows_at_once, rows - begin);
    const S* const from = x + begin * cols;
    S* const to = y + begin * cols;
    for (Index i = 0; i < count; ++i) highest[i] = highest_of<cols>(from + i * cols);
    if constexpr (cols % lanes<S> != 0 && cols < 4 * lanes<S>) {  // exponentials of narrow rows fill whole vectors
      for (Index i = 0; i < count; ++i) {
        cpu::each_column<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
          store<V>(to + i * cols + c, load<V>(from + i * cols + c) - splat<V>(highest[i]));
        });
      }
      change_each(count * cols, to, [](auto below) { return exp(below); });
      for (Index i = 0; i < count; ++i) {
        total[i] = cpu::sum_columns<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
          return load<V>(to + i * cols + c);
        });
      }
    } else {
      for (Index i = 0; i < count; ++i) {
        total[i] = sum_below<cols>(from + i * cols, highest[i], [&]<class V>(Index c, cpu::Register<V> e) {
          store<V>(to + i * cols + c, e);
        });
      }
    }
    if constexpr (wants_log_sum) {
      cpu::each_element<S, 1, true>(count, [&]<class V>(Index, Index i) __attribute__((always_inline)) {
        const V most = load<V>(highest + i), zero = most - most;  // NaN where it is infinite, as L then is
        store(L + begin + i, select(zero == zero, V(most + log(load<V>(total + i))), most));
      });
      for (Index i = 0; i < count; ++i) {
        const S zero = highest[i] - highest[i];
        if (!(zero == zero)) L[begin + i] += nan_of<cols>(from + i * cols);
      }
    }
    change_each(count, total, [](auto sum) { return S(1) / sum; });
    for (Index i = 0; i < count; ++i) {
      cpu::each_column<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
        store<V>(to + i * cols + c, load<V>(to + i * cols + c) * splat<V>(total[i]));
      });
    }
  }
}

/// What both softmaxes share: shapes, and a pull-back that reads the result.
struct softmax_op : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
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
      const S along = cpu::sum_columns<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
        return load<V>(g + c) * load<V>(y + c);
      });
      cpu::each_column<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
        put<F::template write<0>, V>(dx + c, load<V>(y + c) * (load<V>(g + c) - splat<V>(along)));
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
    const auto all = [](Index) { return true; };
    detail::log_sums_below<cols>(frame.rows(), x, all, [&](Index row, S highest, S log_sum) {
      cpu::each_column<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
        const Index at = row * cols + c;
        store<V>(y + at, (load<V>(x + at) - splat<V>(highest)) - splat<V>(log_sum));
      });
    });
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index cols = F::out_shape.cols;
    const S *y = frame.out(), *g = frame.out_grad();
    S* dx = frame.template grad<0>();
    for (Index row = 0; row < frame.rows(); ++row, y += cols, g += cols, dx += cols) {
      const S total = cpu::sum_columns<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
        return load<V>(g + c);
      });
      cpu::each_column<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
        put<F::template write<0>, V>(dx + c, load<V>(g + c) - exp(load<V>(y + c)) * splat<V>(total));
      });
    }
  }
};

template <>
struct op<"log_sum_exp"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
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
      cpu::each_column<S, cols>([&]<class V>(Index c) __attribute__((always_inline)) {
        put<F::template write<0>, V>(dx + c, load<V>(y + c) * splat<V>(g[row]));
      });
    }
  }
};

/// exp(x) / sum(exp(x)) over the columns of each row.
///
/// Shapes  any, and the same
/// Cost    keeps its result
constexpr Expr softmax(At x) { return apply<"softmax">({}, x); }

/// The logarithm of softmax.
///
/// Shapes  any, and the same
/// Cost    keeps its result
constexpr Expr log_softmax(At x) { return apply<"log_softmax">({}, x); }

/// log(sum(exp(x))) over everything, as `sum`, or over rows or columns: log_softmax(x) is
/// x - log_sum_exp(x, Over::columns).
///
/// Shapes  x (rows, C) -> (rows, 1), (1, C) or (1, 1)
/// Cost    over columns one node that keeps softmax(x); otherwise a maximum and a sum that keeps its exponentials
constexpr Expr log_sum_exp(At x, Over over = Over::all) {
  if (over == Over::columns) return apply<"log_sum_exp">({}, x);
  auto largest = max(x, over);
  auto highest = stop_gradient(largest);  // a gradient would cancel
  auto finite = highest - highest + 1.0;  // else NaN: where the largest is infinite, so is the result, by that alone
  auto origin = select(finite, highest, 0.0);
  auto rest = log(sum(exp(apply<"subtract">({}, x, At(origin))), over));
  return select(finite, origin + rest, highest);
}

}  // namespace simplx
