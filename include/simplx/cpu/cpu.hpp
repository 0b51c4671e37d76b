// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cpu/cpu.hpp
/// The CPU backend: scalar type and path of the kernels. It owns nothing; kernels are templates.

#include <simplx/cpu/map.hpp>
#include <simplx/cpu/map_backward.hpp>
#include <simplx/cpu/pieces.hpp>

#include <Eigen/Core>

#include <algorithm>

namespace simplx::inline SIMPLX_TARGET {

namespace cpu {
template <class S>
using MatrixMap = Eigen::Map<Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
template <class S>
using ConstMatrixMap = Eigen::Map<const Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
}  // namespace cpu

/// This processor, with numbers of type S, float or double; `path` chooses among kernels.
template <class S, Path path = Path::fast>
struct Cpu {
  static_assert((path != Path::bfloat16 && path != Path::int8) || std::is_same_v<S, float>,
                "simplx: Path::bfloat16 and Path::int8 round what products read of floats: use "
                "Cpu<float, Path::bfloat16> or Cpu<float, Path::int8>");
  using Scalar = S;
  /// Whether kernels on vectors run, and whether rows of that width are whole vectors for them.
  static constexpr bool by_vectors = path != Path::reference && std::is_arithmetic_v<S>;
  static constexpr bool vectorises(Index width) { return by_vectors && width % lanes<S> == 0; }

  /// Of products with parameters: whether their operands are rounded, the weights alone to bytes, or in pieces.
  static constexpr bool rounds = path == Path::bfloat16;
  static constexpr bool to_bytes = path == Path::int8;
  static constexpr bool splits = path == Path::fast && cpu::floats_in_pieces && std::is_same_v<S, float>;

  static void clear(const Context<S>&, S* data, Index size) { std::fill_n(data, size, S(0)); }
  static void copy(const Context<S>&, const S* from, Index size, S* to) { std::copy_n(from, size, to); }
  /// to += from
  static void add(const Context<S>&, const S* from, Index size, S* to) {
    for (Index i = 0; i < size; ++i) to[i] += from[i];
  }

  /// Evaluates a group; a product that it finishes runs first, or hands over its accumulators.
  template <class G, int root>
  static void map_forward(const Context<S>& context) {
    constexpr int product = G::fusion.epilogue_of[root];
    S* out = const_cast<S*>(Address<G>::template value<root>(context));
    if constexpr (detail::Group<G, root>::reduces) {
      cpu::reduce_forward_loop<G, root, S>(context, out);
    } else if constexpr (product < 0) {
      cpu::map_forward_loop<G, root, S>(context, nullptr, out);
    } else {
      using Op = op_of<G, product>;
      const Frame<G, product, S> frame{context};
      if constexpr (Op::template takes_epilogue<Cpu, Frame<G, product, S>>) {
        Op::forward(Cpu{}, frame, out, Epilogue<G, root>(context));
      } else {
        S* value = out;
        if constexpr (G::plan.kept[product]) value = frame.out();
        Op::forward(Cpu{}, frame, value);
        cpu::map_forward_loop<G, root, S>(context, value, out);
      }
    }
  }

  template <class G, int root>
  static void map_backward(const Context<S>& context) {
    cpu::MapBackward<G, root, S>::run(context);
  }

 private:
  /// What a product calls for each vector of accumulators.
  template <class G, int root>
  struct Epilogue {
    static constexpr int product = G::fusion.epilogue_of[root];
    cpu::Operands<G, root, S> operands;
    S* product_value = nullptr;

    explicit Epilogue(const Context<S>& context) : operands(context) {
      if constexpr (G::plan.kept[product]) {
        product_value = const_cast<S*>(Address<G>::template value<product>(context));
      }
    }
    template <class V>
    __attribute__((always_inline)) cpu::Register<V> at(cpu::Register<V> accumulator, Index row, Index col) const {
      if constexpr (G::plan.kept[product]) {
        store<V>(product_value + row * detail::Group<G, root>::shape.cols + col, accumulator);
      }
      return cpu::map_value<G, root, V>(operands, row, col, accumulator);
    }
  };
};

}  // namespace simplx
