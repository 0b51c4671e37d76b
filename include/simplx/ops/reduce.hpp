// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/reduce.hpp
/// Sums, means and maxima over rows, columns or everything; log-sum-exp is in softmax.hpp.
///
/// | over          | (rows, C) becomes |
/// |---------------|-------------------|
/// | Over::rows    | (1, C)            |
/// | Over::columns | (rows, 1)         |
/// | Over::all     | (1, 1)            |
///
/// A sum or mean ends the loop of the elementwise expression it sums: sum(square(x - y)) stores nothing between.
/// Rows are those of one evaluation, whatever the sequences.

#include <simplx/ops/functions.hpp>
#include <simplx/ops/kernel.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

constexpr Shape reduced_shape(const Attributes& attributes, const Shape& x) {
  switch (over_of(attributes)) {
    case Over::rows: return fixed_shape(1, x.cols);
    case Over::columns: return Shape{x.axis, x.rows, 1};
    default: return fixed_shape(1, 1);
  }
}

/// The value of an element is what is summed, and its derivative that of the sum.
struct sum_op : identity_op {
  static constexpr Kind kind = Kind::reduction;
  static constexpr unsigned char passes = 0;
  static constexpr Checked shape(const Attributes& attributes, Shape x) { return reduced_shape(attributes, x); }
};

}  // namespace detail

template <>
struct op<"sum"> : detail::sum_op {
  static constexpr double scale(const Attributes&, Index, Index) { return 1; }
  static constexpr Term derive(const Node*, int, const Term& g) { return g; }
};
template <>
struct op<"mean"> : detail::sum_op {
  /// g / n, where run-time rows are counted by a sum of ones.
  static constexpr Term derive(const Node* node, int, const Term& g) {
    const Shape& x = node->arguments[0]->shape;
    const bool by_columns = detail::over_of(node->attributes) == Over::columns;
    if (x.is_fixed() || by_columns) return g * Term(scale(node->attributes, x.rows, x.cols));
    return g / Term(apply<"sum">(node->attributes, At(spread(1.0, detail::argument(node, 0)))));
  }
  static constexpr double scale(const Attributes& attributes, Index rows, Index cols) {
    const Over over = detail::over_of(attributes);
    return 1 / static_cast<double>((over == Over::columns ? 1 : rows) * (over == Over::rows ? 1 : cols));
  }
};

template <>
struct op<"maximum"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr bool needs_inputs = true;
  static constexpr bool needs_output = true;
  static constexpr Checked shape(const Attributes& attributes, Shape x) {
    return detail::reduced_shape(attributes, x);
  }
  /// NaN if either is.
  template <class V>
  __attribute__((always_inline)) static V larger(V a, V b) {
    return select(b > a, b, select(b == b, a, b));
  }
  /// The largest of `count` numbers, in four chains that need not wait for each other.
  template <class S>
  static S largest_of(const S* x, Index count) {
    constexpr Index step = lanes<S>;
    const S least = S(-std::numeric_limits<double>::infinity());
    if constexpr (step == 1) {  // dual numbers: of equal ones the first, whose derivative it is
      if (count == 0) return least;
      S result = x[0];
      for (Index i = 1; i < count; ++i) result = larger(result, x[i]);
      return result;
    }
    Vec<S> chain[4];
    for (Vec<S>& lane : chain) lane = splat<Vec<S>>(least);
    Index i = 0;
    for (; i + 4 * step <= count; i += 4 * step) {
      detail::unroll<0, 4>([&]<int k>(std::integral_constant<int, k>) __attribute__((always_inline)) {
        chain[k] = larger(chain[k], load<Vec<S>>(x + i + k * step));
      });
    }
    for (; i + step <= count; i += step) chain[0] = larger(chain[0], load<Vec<S>>(x + i));
    if (i < count && count >= step) {  // the last vector, some of it again
      chain[1] = larger(chain[1], load<Vec<S>>(x + count - step));
      i = count;
    }
    S result = largest_lane(larger(larger(chain[0], chain[1]), larger(chain[2], chain[3])));
    for (; i < count; ++i) result = larger(result, x[i]);
    return result;
  }
  template <class V>
  __attribute__((always_inline)) static Lane<V> largest_lane(V v) {
    return detail::folded(v, []<class H>(H a, H b) __attribute__((always_inline)) { return larger<H>(a, b); });
  }
  template <Index cols, class S>
  static S largest_of_row(const S* x) {
    if constexpr (cols < lanes<S> && cpu::takes_part<S, cols>) {
      using Row = cpu::Part<S, cols>;
      return largest_lane(cpu::counted<Row>(load<Row>(x), splat<Row>(S(-std::numeric_limits<S>::infinity()))));
    } else {
      return largest_of(x, cols);
    }
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Over over = detail::over_of(F::attributes);
    constexpr Index cols = F::template shape<0>.cols;
    const Index rows = frame.template rows_in<0>();
    const S* x = frame.template in<0>();
    S* y = frame.out();
    if constexpr (over == Over::all) *y = largest_of(x, rows * cols);
    if constexpr (over == Over::columns) {
      for (Index row = 0; row < rows; ++row) y[row] = largest_of_row<cols>(x + row * cols);
    }
    if constexpr (over == Over::rows) {
      cpu::ColumnValues<S, cols> most(S(-std::numeric_limits<double>::infinity()));
      for (Index row = 0; row < rows; ++row) {
        most.each([&]<class V>(Index col, cpu::Register<V>& so_far) __attribute__((always_inline)) {
          so_far = larger(so_far, load<V>(x + row * cols + col));
        });
      }
      most.each([&]<class V>(Index col, cpu::Register<V>& largest) __attribute__((always_inline)) {
        store<V>(y + col, largest);
      });
    }
  }
  /// The first of the largest elements gets the gradient.
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    const S *x = frame.template in<0>(), *y = frame.out(), *g = frame.out_grad();
    S* dx = frame.template grad<0>();
    constexpr bool stores = F::template write<0> == Write::store;
    if constexpr (stores) std::fill_n(dx, frame.template rows_in<0>() * F::template shape<0>.cols, S(0));
    constexpr Over over = detail::over_of(F::attributes);
    constexpr Index cols = F::template shape<0>.cols;
    const Index rows = frame.template rows_in<0>();
    const auto first = [&](Index begin, Index step, Index count, Index place) {
      for (Index k = 0; k < count; ++k) {
        if (x[begin + k * step] == y[place]) return void(dx[begin + k * step] += g[place]);
      }
    };
    if constexpr (over == Over::all) first(0, 1, rows * cols, 0);
    if constexpr (over == Over::columns) {
      for (Index row = 0; row < rows; ++row) first(row * cols, 1, cols, row);
    }
    if constexpr (over == Over::rows) {
      for (Index col = 0; col < cols; ++col) first(col, cols, rows, col);
    }
  }
};

/// The sum of all elements, or over rows or columns.
///
/// Shapes  x (rows, C) -> (1, 1), (1, C) over rows, (rows, 1) over columns
/// Cost    one pass; fused with the elementwise expression x
constexpr Expr sum(At x, Over over = Over::all) { return apply<"sum">(detail::attributes_of(over), x); }

/// The sum divided by the number of elements that it has; of no rows at all it is not a number, over rows 0.
///
/// Shapes  as sum
constexpr Expr mean(At x, Over over = Over::all) { return apply<"mean">(detail::attributes_of(over), x); }

/// The largest element, where max(a, b) is the larger of two values; the first of several equal ones gets the gradient.
///
/// Shapes  as sum
/// Cost    keeps x and the result
constexpr Expr max(At x, Over over = Over::all) { return apply<"maximum">(detail::attributes_of(over), x); }

/// (x - y)^2, averaged over everything.
constexpr Expr mean_squared_error(At x, At y) { return mean(square(apply<"subtract">({}, x, y))); }

}  // namespace simplx
