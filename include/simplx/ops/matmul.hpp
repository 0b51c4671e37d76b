// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/matmul.hpp
/// Matrix products: Y = X W, or Y = X W^T when the right operand is transpose(W).
///
///     dX = dY W^T,   dW += X^T dY
///
/// The elementwise group that uses Y becomes the product's epilogue (core/fuse.hpp): relu(x * W) never stores
/// what is below the ReLU. Parameters are packed into panels once for each step, W and W^T, so that all three
/// products of training run at the speed of the plain one.

#include <simplx/cpu/gemm.hpp>
#include <simplx/cpu/gemm_bfloat16.hpp>
#include <simplx/cpu/matrix_vector.hpp>
#include <simplx/ops/transpose.hpp>

namespace simplx::inline SIMPLX_TARGET {

template <>
struct op<"matmul"> : kernel_op {
  static constexpr Kind kind = Kind::product;
  static constexpr bool adds_by_itself = true;
  /// dX reads W, dW reads X.
  static constexpr bool reads(int to, int operand) { return to != operand; }
  static constexpr bool transposed(const Attributes& attributes) { return attributes.integers[0] != 0; }

  static constexpr Checked shape(const Attributes& attributes, Shape x, Shape w) {
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
  /// Room for a (rows, cols) matrix in panels, of vectors of any width; with one column it is no such product.
  static constexpr Index panels(Index rows, Index cols) {
    return round_up(cols == 1 ? rows : rows * round_up(cols, alignment), alignment);
  }
  static constexpr Index packed(const Attributes&, Shape, Shape w) {
    return panels(w.rows, w.cols) + panels(w.cols, w.rows);
  }

  /// What a product of the graph is, as constants.
  template <class F>
  struct Product {
    static constexpr bool transposed = op::transposed(F::attributes);
    static constexpr Shape weight = F::template shape<1>;
    static constexpr Index K = F::template shape<0>.cols, N = F::out_shape.cols;
    static constexpr Index size = panels(K, N);  ///< of W; those of W^T lie behind it
    static constexpr bool prepared = F::Graph::table.info[F::template argument<1>].kind == Kind::parameter;
    /// Whether panels of that width are what the product is computed from. A matrix that is packed anew for each
    /// product must be worth it.
    template <class Backend>
    static constexpr bool by_panels(Index width) {
      const bool any_width = prepared && Backend::vectorises(0);
      return Backend::vectorises(width) || (any_width && width > lanes<typename Backend::Scalar>);
    }
    /// Whether the operands are rounded to pairs of bfloat16.
    template <class Backend>
    static constexpr bool rounds = Backend::rounds && prepared && Backend::vectorises(K) && Backend::vectorises(N);
  };

  /// Of a matrix and a vector, which lies in memory the same way whether transposed or not.
  template <class Backend, class F>
  static constexpr bool of_vector = Backend::vectorises(0) && F::out_shape.cols == 1;
  template <class Backend, class F>
  static constexpr bool takes_epilogue = Product<F>::template by_panels<Backend>(Product<F>::N);

  template <class Backend, class F>
  static constexpr Index scratch(const Rows& rows) {
    using P = Product<F>;
    const Index count = F::template shape<0>.is_fixed() ? F::template shape<0>.rows
                                                        : rows.count(F::template shape<0>.axis);
    if (P::template rounds<Backend>) return gradient_pairs(count, P::K, P::N);
    const bool gradient = P::template by_panels<Backend>(P::N) && P::template by_panels<Backend>(P::K);
    return std::max(gradient ? gradient_scratch<typename Backend::Scalar>(round_up(count, alignment)) : 0,
                    P::prepared ? 0 : P::size);
  }
  template <class F>
  static constexpr double flops(const Rows& rows, bool) {
    const Shape x = F::template shape<0>;
    const double count = static_cast<double>(x.is_fixed() ? x.rows : rows.count(x.axis));
    return 2 * count * static_cast<double>(x.cols) * static_cast<double>(F::out_shape.cols);
  }

  /// W for Y = X W.
  template <class P, class Backend, class S>
  static void pack_forward(Backend, const S* weight, S* packed) {
    if constexpr (P::template rounds<Backend>) {
      if constexpr (P::transposed) {
        pack_transposed_pairs<P::K, P::N>(weight, pairs(packed));
      } else {
        pack_pairs<P::K, P::N>(weight, pairs(packed));
      }
    } else if constexpr (P::transposed) {
      pack_transposed<P::K, P::N>(weight, packed);
    } else {
      pack<P::K, P::N>(weight, packed);
    }
  }
  /// W^T for dX = dY W^T.
  template <class P, class Backend, class S>
  static void pack_backward(Backend, const S* weight, S* packed) {
    if constexpr (P::template rounds<Backend>) {
      if constexpr (P::transposed) {
        pack_pairs<P::N, P::K>(weight, pairs(packed));
      } else {
        pack_transposed_pairs<P::N, P::K>(weight, pairs(packed));
      }
    } else if constexpr (P::transposed) {
      pack<P::N, P::K>(weight, packed);
    } else {
      pack_transposed<P::N, P::K>(weight, packed);
    }
  }
  /// Memory of floats that holds pairs of bfloat16.
  static Pair* pairs(float* memory) { return reinterpret_cast<Pair*>(memory); }
  static const Pair* pairs(const float* memory) { return reinterpret_cast<const Pair*>(memory); }

  template <class G, int node, class S, Path path>
  static void prepare(Cpu<S, path> backend, const S* parameters, S* packed) {
    using F = Frame<G, node, S>;
    using P = Product<F>;
    using B = Cpu<S, path>;
    if constexpr (P::prepared) {
      const S* weight = parameters + G::layout.parameter[F::template argument<1>];
      if constexpr (P::template by_panels<B>(P::N)) pack_forward<P>(backend, weight, packed);
      if constexpr (P::template by_panels<B>(P::K) && G::fusion.wanted[F::template argument<0>]) {
        pack_backward<P>(backend, weight, packed + P::size);
      }
    }
  }

  template <class S, Path path, class F, class Epilogue>
  static void forward(Cpu<S, path> backend, const F& frame, S* out, const Epilogue& epilogue) {
    using P = Product<F>;
    const S* x = frame.template in<0>();
    if constexpr (P::template rounds<Cpu<S, path>>) {
      gemm_bfloat16<P::K, P::N, Write::store>(frame.rows(), x, pairs(frame.packed()), out, epilogue,
                                              pairs(frame.scratch()));
    } else {
      const S* panels = frame.packed();
      if constexpr (!P::prepared) {
        pack_forward<P>(backend, frame.template in<1>(), frame.scratch());
        panels = frame.scratch();
      }
      gemm<P::K, P::N, Write::store>(frame.rows(), x, panels, out, epilogue);
    }
  }

  template <class S, Path path, class F>
  static void forward(Cpu<S, path> backend, const F& frame, S* out) {
    using P = Product<F>;
    if constexpr (takes_epilogue<Cpu<S, path>, F>) {
      forward(backend, frame, out, NoEpilogue{});
    } else if constexpr (of_vector<Cpu<S, path>, F>) {
      matrix_vector<P::K>(frame.rows(), frame.template in<0>(), frame.template in<1>(), out);
    } else {
      const ConstMatrixMap<S> x(frame.template in<0>(), frame.rows(), P::K);
      const ConstMatrixMap<S> w(frame.template in<1>(), P::weight.rows, P::weight.cols);
      MatrixMap<S> y(out, frame.rows(), P::N);
      if constexpr (P::transposed) {
        y.noalias() = x * w.transpose();
      } else {
        y.noalias() = x * w;
      }
    }
  }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path> backend, const F& frame) {
    forward(backend, frame, frame.out());
  }

  template <class S, Path path, class F>
  static void backward(Cpu<S, path> backend, const F& frame) {
    using P = Product<F>;
    using B = Cpu<S, path>;
    const S* dy = frame.out_grad();
    if constexpr (F::template write<1> != Write::skip) {
      const S* x = frame.template in<0>();
      S* dw = frame.template grad<1>();
      Turn* const turn = frame.template turn<1>();
      if constexpr (P::template rounds<Cpu<S, path>>) {
        if constexpr (P::transposed) {
          gemm_gradient_bfloat16<P::N, P::K>(frame.rows(), dy, x, dw, pairs(frame.scratch()), turn);
        } else {
          gemm_gradient_bfloat16<P::K, P::N>(frame.rows(), x, dy, dw, pairs(frame.scratch()), turn);
        }
      } else if constexpr (P::template by_panels<B>(P::N) && P::template by_panels<B>(P::K)) {
        if constexpr (P::transposed) {  // W is (N, K): dW += dY^T X
          gemm_gradient<P::N, P::K>(frame.rows(), dy, x, dw, frame.scratch(), turn);
        } else {
          gemm_gradient<P::K, P::N>(frame.rows(), x, dy, dw, frame.scratch(), turn);
        }
      } else if constexpr (of_vector<Cpu<S, path>, F>) {
        const Addition addition(turn);
        add_transposed_matrix_vector<P::K>(frame.rows(), x, dy, dw);
      } else {
        const ConstMatrixMap<S> xs(x, frame.rows(), P::K), dys(dy, frame.rows(), P::N);
        MatrixMap<S> dws(dw, P::weight.rows, P::weight.cols);
        const Addition addition(turn);
        if constexpr (P::transposed) {
          dws.noalias() += dys.transpose() * xs;
        } else {
          dws.noalias() += xs.transpose() * dys;
        }
      }
    }
    if constexpr (F::template write<0> != Write::skip) {
      S* dx = frame.template grad<0>();
      if constexpr (P::template rounds<Cpu<S, path>>) {
        gemm_bfloat16<P::N, P::K, F::template write<0>>(frame.rows(), dy, pairs(frame.packed() + P::size), dx,
                                                        NoEpilogue{}, pairs(frame.scratch()));
      } else if constexpr (P::template by_panels<B>(P::K)) {
        const S* panels = frame.packed() + P::size;
        if constexpr (!P::prepared) {
          pack_backward<P>(backend, frame.template in<1>(), frame.scratch());
          panels = frame.scratch();
        }
        gemm<P::N, P::K, F::template write<0>>(frame.rows(), dy, panels, dx, NoEpilogue{});
      } else {
        const ConstMatrixMap<S> w(frame.template in<1>(), P::weight.rows, P::weight.cols);
        const ConstMatrixMap<S> dys(dy, frame.rows(), P::N);
        MatrixMap<S> dxs(dx, frame.rows(), P::K);
        if constexpr (F::template write<0> == Write::store) dxs.setZero();
        if constexpr (P::transposed) {
          dxs.noalias() += dys * w;
        } else {
          dxs.noalias() += dys * w.transpose();
        }
      }
    }
  }
};

/// The matrix product when the right operand is a matrix (several static rows) and the left one is no single
/// number; elementwise otherwise. Two matrices are multiplied element by element by multiply(a, b).
///
/// Shapes  (rows, K) * (K, N) -> (rows, N);  (rows, N) * (1, N), (rows, 1) or (1, 1) -> (rows, N)
///         transpose(a) * b, a (rows, K), b (rows, N) -> (K, N), over static or run-time rows
/// Errors  does not compile unless widths agree: rules "inner widths" and "equal widths"
/// Cost    2 rows K N FLOPs forward, twice that backward; keeps X
constexpr Expr operator*(At a, At b) {
  if (a.node->op == Tag("transpose") && !b.shape().is_fixed()) {
    return apply<"contract">({}, At(Expr{a.node->arguments[0]}), b);
  }
  const bool number = a.shape() == fixed_shape(1, 1);
  if (b.node->op == Tag("transpose") && !number) {
    return apply<"matmul">({.integers = {1}}, a, At(Expr{b.node->arguments[0]}));
  }
  const bool matrix = b.shape().is_fixed() && b.shape().rows > 1;
  return matrix && !number ? apply<"matmul">({}, a, b) : apply<"multiply">({}, a, b);
}

}  // namespace simplx
