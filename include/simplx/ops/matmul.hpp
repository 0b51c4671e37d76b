// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/matmul.hpp
/// Matrix products: Y = X W, or Y = X W^T when the right operand is transpose(W).
///
///     dX = dY W^T,   dW += X^T dY
///
/// The elementwise group that uses Y becomes the product's epilogue (core/fuse.hpp): relu(x * W) never stores
/// what is below the ReLU. Parameters are packed once for each step (cpu/linear_product.hpp).

#include <simplx/cpu/linear_product.hpp>
#include <simplx/ops/transpose.hpp>

namespace simplx::inline SIMPLX_TARGET {

template <>
struct op<"matmul"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr Kind kind = Kind::product;
  static constexpr bool adds_by_itself = true;
  /// dX reads W, dW reads X.
  static constexpr bool reads(int to, int operand) { return to != operand; }
  static constexpr bool transposed(Attributes attributes) { return detail::is_transposed(attributes); }

  static constexpr Checked shape(const Attributes& attributes, Shape x, Shape w) {
    if (x.is_fixed() && !w.is_fixed()) return {"matrix on the left", x.rows, x.cols};
    if (!w.is_fixed()) return {"static right operand", static_cast<Index>(w.axis), 0};
    const Index inner = transposed(attributes) ? w.cols : w.rows, outer = transposed(attributes) ? w.rows : w.cols;
    if (x.cols != inner) return {"inner widths", x.cols, inner};
    return Shape{x.axis, x.rows, outer};
  }
  static constexpr Term derive(const Node* node, int argument, const Term& g) {
    const At dy = detail::whole(g, node), x = detail::argument(node, 0), w = detail::argument(node, 1);
    const bool turned = transposed(node->attributes);
    if (argument == 0) return Term(apply<"matmul">({.integers = {!turned}}, dy, w));
    return Term(turned ? apply<"contract">({}, dy, x) : apply<"contract">({}, x, dy));
  }
  static constexpr int packs = 1;
  static constexpr Index packed(const Attributes&, Shape, Shape w) {
    return cpu::packed_room(w.rows, w.cols);
  }

  /// What a product of the graph is, as constants.
  template <class F>
  struct Product {
    static constexpr bool transposed = op::transposed(F::attributes);
    static constexpr Shape weight = F::template shape<1>;
    static constexpr Index K = F::template shape<0>.cols, N = F::out_shape.cols;
    static constexpr bool prepared = F::Graph::table.info[F::template argument<1>].kind == Kind::parameter;
    template <class Backend>
    using On = cpu::LinearProduct<Backend, K, N, transposed, prepared>;
  };

  template <class Backend, class F>
  static constexpr bool takes_epilogue = Product<F>::template On<Backend>::takes_epilogue;

  template <class Backend, class F>
  static constexpr Index scratch(const Rows& rows) {
    const Shape x = F::template shape<0>;
    return Product<F>::template On<Backend>::scratch(rows.count(x));
  }
  template <class F>
  static constexpr double flops(const Rows& rows, bool) {
    const Shape x = F::template shape<0>;
    const double count = static_cast<double>(rows.count(x));
    return 2 * count * static_cast<double>(x.cols) * static_cast<double>(F::out_shape.cols);
  }

  template <class G, int node, class S, Path path>
  static void prepare(Cpu<S, path>, const S* parameters, S* packed, S* turned) {
    using F = Frame<G, node, S>;
    if constexpr (Product<F>::prepared) {
      using Linear = typename Product<F>::template On<Cpu<S, path>>;
      constexpr bool wants_dx = G::fusion.wanted[F::template argument<0>];
      Linear::prepare(parameters + G::layout.parameter[F::template argument<1>], packed, wants_dx ? turned : nullptr);
    }
  }

  template <class S, Path path, class F, class Epilogue = cpu::NoEpilogue>
  static void forward(Cpu<S, path>, const F& frame, S* out, const Epilogue& epilogue = {}) {
    using Linear = typename Product<F>::template On<Cpu<S, path>>;
    Linear::forward(frame.rows(), frame.template in<0>(), frame.template in<1>(), frame.packed(), frame.scratch(), out,
                    epilogue, frame.team());
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path> backend, const F& frame) {
    forward(backend, frame, frame.out());
  }

  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    using Linear = typename Product<F>::template On<Cpu<S, path>>;
    const S* dy = frame.out_grad();
    if constexpr (F::template write<1> != Write::skip) {
      Linear::add_weight_gradient(frame.rows(), frame.template in<0>(), dy, frame.template grad<1>(), frame.scratch(),
                                  frame.template turn<1>());
    }
    if constexpr (F::template write<0> != Write::skip) {
      const detail::Addition addition(frame.template turn<0>());
      Linear::template input_gradient<F::template write<0>>(frame.rows(), dy, frame.template in<1>(), frame.turned(),
                                                            frame.scratch(), frame.template grad<0>());
    }
  }
};

/// The matrix product, whatever the shapes.
///
/// Shapes  (rows, K), (K, N) -> (rows, N)
///         transpose(a), b, of a (rows, K) and b (rows, N) -> (K, N), over static or run-time rows
/// Errors  does not compile unless widths and rows agree: rules "inner widths", "equal rows" and "equal axes"; nor for
///         W and x: rule "matrix on the left"
/// Cost    2 rows K N FLOPs forward, twice that backward; keeps both
constexpr Expr matmul(At a, At b) {
  if (a.node->op == Tag("transpose") && !b.shape().is_fixed()) {
    return apply<"contract">({}, At(Expr{a.node->arguments[0]}), b);
  }
  if (b.node->op == Tag("transpose")) {
    return apply<"matmul">({.integers = {1}}, a, At(Expr{b.node->arguments[0]}));
  }
  return apply<"matmul">({}, a, b);
}

/// matmul(a, b) where b is transposed or a matrix (several static rows, of one column too), or a is transposed and of
/// run-time rows; multiply(a, b), elementwise, otherwise and where a is a number. Code for any rows says which.
///
/// Shapes  (rows, K) * (K, N) -> (rows, N);  (rows, N) * (1, N) or (1, 1) -> (rows, N)
///         (rows, N) * (rows, 1) -> (rows, N) over run-time rows alone: static (3, 3) * (3, 1) is the product, (3, 1)
/// Errors  as matmul, and rule "equal widths"
constexpr Expr operator*(At a, At b) {
  if (a.node->op == Tag("transpose") && !b.shape().is_fixed()) return matmul(a, b);
  const bool number = a.shape() == fixed_shape(1, 1);
  if (b.node->op == Tag("transpose") && !number) return matmul(a, b);
  const bool matrix = (b.shape().is_fixed() ? b : a).shape().rows > 1;  // W * x is refused in words of its own
  // By apply at once: a further call for each product of 18 layers costs g++ a megabyte.
  return matrix && !number ? apply<"matmul">({}, a, b) : apply<"multiply">({}, a, b);
}
constexpr Expr& operator*=(Expr& x, At y) { return x = x * y; }

}  // namespace simplx
