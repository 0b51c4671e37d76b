// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/linear_product.hpp
/// The products of a layer with the weights W, each by the fastest kernel for its sizes and path:
///
///     Y = X W,   dX = dY W^T,   dW += X^T dY
///
/// Weights that are parameters are packed once a step, W and W^T, so that all three run at the speed of the plain one:
/// into panels, into pieces where the CPU has a matrix unit, or into bytes, which have no backward. Others are packed
/// anew for each product, unless it has so few rows that Eigen multiplies them, one by one, in less time than that.

#include <simplx/cpu/cpu.hpp>
#include <simplx/cpu/dual_product.hpp>
#include <simplx/cpu/gemm.hpp>
#include <simplx/cpu/gemm_bfloat16.hpp>
#include <simplx/cpu/gemm_gradient.hpp>
#include <simplx/cpu/gemm_pieces.hpp>
#include <simplx/cpu/matrix_vector.hpp>

namespace simplx::inline SIMPLX_TARGET::cpu {

/// Elements of a (rows, cols) matrix in panels, of vectors of any width, or in pieces; one column is never packed.
constexpr Index packed_matrix(Index rows, Index cols) {
  const Index panels = cols == 1 ? rows : rows * round_up(cols, alignment);
  const bool in_pieces = floats_in_pieces && fits_pieces(rows, cols);
  return round_up(in_pieces ? words_in_pieces(rows * cols) + alignment : panels, alignment);
}
/// Elements of a (rows, cols) matrix, or of its transpose, so packed.
constexpr Index packed_room(Index rows, Index cols) {
  return std::max(packed_matrix(rows, cols), packed_matrix(cols, rows));
}

/// Whether products have gradients; one error for all that have none.
template <class Backend>
constexpr bool has_backward() {
  static_assert(!Backend::to_bytes,
                "simplx: Path::int8 rounds weights to bytes, which have no backward: train on Cpu<float>, and load "
                "what was trained into an Inference or Evaluation on Cpu<float, Path::int8>");
  return !Backend::to_bytes;
}

/// W is (K, N) in the equations, and lies as (N, K) in memory if `transposed`; `prepared` if it is packed beforehand.
///
/// Shapes  X (rows, K), Y (rows, N)
template <class Backend, Index K, Index N, bool transposed, bool prepared>
struct LinearProduct {
  using S = typename Backend::Scalar;
  static constexpr Index outputs = N;

  /// Whether panels of that width are what a product is computed from: whole vectors, and of parameters also what fills
  /// a third of one.
  static constexpr bool by_panels(Index width) {
    const bool any_width = prepared && Backend::by_vectors;
    return Backend::vectorises(width) || (any_width && width > 1 && 3 * width >= lanes<S>);
  }
  /// Whether the operands are rounded to pairs of bfloat16.
  static constexpr bool rounds = Backend::rounds && prepared && Backend::vectorises(K) && Backend::vectorises(N);
  /// Whether the matrix unit multiplies floats in pieces, if the system lets the program use it.
  static constexpr bool splits = Amx::compiled && Backend::splits && prepared && fits_pieces(K, N);
  /// Whether W is rounded to bytes. A single row would need more room with its scales than as floats.
  static constexpr bool to_bytes = Backend::to_bytes && prepared && by_panels(N) && K > 1;
  /// Whether products of dual numbers are those of their parts.
  static constexpr bool wide = K >= 4 && N >= 4;
  /// A matrix and a vector, which lies in memory the same way whether transposed or not.
  static constexpr bool of_vector = Backend::by_vectors && N == 1;
  static constexpr bool takes_epilogue = by_panels(N);

  /// Elements of W in panels, or of W^T.
  static constexpr Index room = packed_room(K, N);
  /// Elements of scratch that each of the products needs.
  static constexpr Index scratch(Index rows) {
    constexpr Index stored_rows = transposed ? N : K, stored_columns = transposed ? K : N;
    if (rounds) return gradient_pairs(rows, stored_rows, stored_columns);
    const bool gradient = by_panels(N) && by_panels(K);
    const Index panels =
        std::max(gradient ? gradient_scratch<S>(round_up(rows, alignment), stored_columns) : 0, prepared ? 0 : room);
    if (!splits) return panels;
    return std::max({panels, product_pieces(rows, K), product_pieces(rows, N),
                     gradient_pieces(rows, stored_rows, stored_columns)});
  }

  /// W for Y = X W.
  static void pack_forward(const S* weight, S* packed) {
    if constexpr (splits) {
      if (Amx::available()) return PackedPieces<K, N>::template pack<transposed>(weight, pairs(packed));
    }
    if constexpr (to_bytes) {
      pack_bytes<transposed>(K, N, weight, packed);
    } else if constexpr (rounds) {
      if constexpr (transposed) {
        pack_transposed_pairs<K, N>(weight, pairs(packed));
      } else {
        pack_pairs<K, N>(weight, pairs(packed));
      }
    } else if constexpr (transposed) {
      pack_transposed<K, N, !prepared>(weight, packed);
    } else {
      pack<K, N, !prepared>(weight, packed);
    }
  }
  /// W^T for dX = dY W^T: the W of the product the other way.
  static void pack_backward(const S* weight, S* packed) { Turned::pack_forward(weight, packed); }
  /// Both; W^T only where there is room for it.
  static void prepare(const S* weight, S* packed, S* turned) {
    if constexpr (by_panels(N)) pack_forward(weight, packed);
    if constexpr (by_panels(K) && !Backend::to_bytes) {
      if (turned) pack_backward(weight, turned);
    }
  }

  /// Y = epilogue(X W); needs takes_epilogue. A team shares what is large, and changes no bits.
  template <class Epilogue, class Threads = std::nullptr_t>
  static void forward(Index rows, const S* x, const S* weight, const S* packed, S* scratch, S* y,
                      const Epilogue& epilogue, Threads team = nullptr) {
    multiply<Write::store>(rows, x, weight, packed, scratch, y, epilogue, team);
  }
  /// Y = X W
  static void forward(Index rows, const S* x, const S* weight, const S* packed, S* scratch, S* y) {
    multiply<Write::store>(rows, x, weight, packed, scratch, y, NoEpilogue{});
  }
  /// dX (=|+=) dY W^T: the product the other way, of W^T as it was packed for backward.
  template <Write mode>
  static void input_gradient(Index rows, const S* dy, const S* weight, const S* turned, S* scratch, S* dx) {
    if constexpr (has_backward<Backend>()) {
      Turned::template multiply<mode>(rows, dy, weight, turned, scratch, dx, NoEpilogue{});
    }
  }

  /// dW += X^T dY, in the order of W in memory, (N, K) += dY^T X if transposed; takes turns as gemm_gradient does, or
  /// one.
  static void add_weight_gradient(Index rows, const S* x, const S* dy, S* dw, S* scratch, detail::Turn* turn) {
    if constexpr (!has_backward<Backend>()) return;
    constexpr Index A = transposed ? N : K, B = transposed ? K : N;  // dW is (A, B) in memory
    const S *const a = transposed ? dy : x, *const b = transposed ? x : dy;
    if constexpr (splits) {
      if (Amx::available()) return gemm_gradient_pieces<A, B>(Amx{}, rows, a, b, dw, pairs(scratch), turn);
    }
    if constexpr (rounds) {
      gemm_gradient_bfloat16<A, B>(rows, a, b, dw, pairs(scratch), turn);
    } else if constexpr (by_panels(N) && by_panels(K)) {
      gemm_gradient<A, B>(rows, a, b, dw, scratch, turn);
    } else if constexpr (of_vector) {
      const detail::Addition addition(turn);
      add_transposed_matrix_vector<K>(rows, x, dy, dw);
    } else {
      const detail::Addition addition(turn);
      MatrixMap<S> dws(dw, A, B);
      add_product<wide>(dws, ConstMatrixMap<S>(a, rows, A).transpose(), ConstMatrixMap<S>(b, rows, B));
    }
  }

 private:
  template <class, Index, Index, bool, bool>
  friend struct LinearProduct;
  using Turned = LinearProduct<Backend, N, K, !transposed, prepared>;

  /// Y (=|+=) epilogue(X W); with an epilogue it needs takes_epilogue.
  template <Write mode, class Epilogue, class Threads = std::nullptr_t>
  static void multiply(Index rows, const S* x, const S* weight, const S* packed, S* scratch, S* y,
                       const Epilogue& epilogue, Threads team = nullptr) {
    if constexpr (splits) {
      if (Amx::available()) {
        return gemm_pieces<Amx, K, N, transposed, mode>(rows, x, weight, pairs(packed), y, epilogue, pairs(scratch),
                                                        team);
      }
    }
    if constexpr (to_bytes) {
      gemm<K, N, mode>(rows, x, packed_bytes(N, packed), y, Scaled<Epilogue>{packed, epilogue}, team);
    } else if constexpr (rounds) {
      gemm_bfloat16<K, N, mode>(rows, x, pairs(packed), y, epilogue, pairs(scratch), team);
    } else if constexpr (by_panels(N)) {
      if constexpr (!prepared) {
        if (rows <= few_rows) return multiply_few<mode>(rows, x, weight, y, epilogue);
        pack_forward(weight, scratch);
        packed = scratch;
      }
      gemm<K, N, mode>(rows, x, packed, y, epilogue, team);
    } else if constexpr (of_vector && mode == Write::store) {
      matrix_vector<K>(rows, x, weight, y);
    } else {
      multiply_by_eigen<mode>(rows, x, weight, y);
    }
  }
  /// The same of rows so few that packing W would take longer.
  template <Write mode, class Epilogue>
  static void multiply_few(Index rows, const S* x, const S* weight, S* y, const Epilogue& epilogue) {
    for (Index row = 0; row < rows; ++row) multiply_by_eigen<mode>(1, x + row * K, weight, y + row * N);
    if constexpr (!std::is_same_v<Epilogue, NoEpilogue>) {
      each_element<S, N, false>(rows, [&]<class V>(Index row, Index col) __attribute__((always_inline)) {
        S* const place = y + row * N + col;
        store<V>(place, epilogue.template at<V>(load<V>(place), row, col));
      });
    }
  }
  template <Write mode>
  static void multiply_by_eigen(Index rows, const S* x, const S* weight, S* y) {
    const ConstMatrixMap<S> xs(x, rows, K), w(weight, transposed ? N : K, transposed ? K : N);
    MatrixMap<S> ys(y, rows, N);
    if constexpr (mode == Write::store) ys.setZero();
    if constexpr (transposed) {
      add_product<wide>(ys, xs, w.transpose());
    } else {
      add_product<wide>(ys, xs, w);
    }
  }
  /// Memory of floats that holds pairs of bfloat16.
  static Twin* pairs(float* memory) { return reinterpret_cast<Twin*>(memory); }
  static const Twin* pairs(const float* memory) { return reinterpret_cast<const Twin*>(memory); }
};

}  // namespace simplx::cpu
