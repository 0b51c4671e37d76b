// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/cuda.cuh
/// The GPU as a backend: the same model, plan, memory and names as on Cpu, its kernels on the stream of a Gpu.
///
///     Trainer<model, Cuda<>> trainer{{.batch = 64}};          // in one .cu file, compiled by nvcc
///
/// What runs on Cpu stays in .cpp files: its kernels are made of vectors, which nvcc does not take.
///
/// Elementwise groups become kernels of their own (map.cuh), products go to cuBLASLt (products.cuh), and each other op
/// has an adapter in ops.cuh. An op of your own runs here if it has `forward(Cuda<p>, frame)` and `backward`, or if
/// you specialise `kernels<Cuda<p>, "its_name">`.

#include <simplx/cuda/between_products.cuh>
#include <simplx/cuda/finished_product.cuh>
#include <simplx/cuda/gpu.cuh>
#include <simplx/cuda/map.cuh>

namespace simplx::inline SIMPLX_TARGET {

/// float32: exact float arithmetic; tf32: products round their operands to 10 bits of mantissa, on tensor cores, and
/// add up in float; bfloat16: those with weights, and of attention, to 7 bits, others as in tf32; float64: for
/// comparisons. All but float64 have parameters and gradients of float: their states can be exchanged.
enum class Precision : int { float32, tf32, bfloat16, float64 };

template <Precision precision = Precision::float32>
struct Cuda {
  using Scalar = std::conditional_t<precision == Precision::float64, double, float>;
  static constexpr bool on_device = true;
  static constexpr bool rounds = precision == Precision::tf32 || precision == Precision::bfloat16;
  static constexpr gpu::Factors factors = rounds ? gpu::Factors::tf32 : gpu::Factors::exact;
  static constexpr bool rounds_values = precision == Precision::bfloat16;  ///< some, see bfloat16_values.cuh
  using Run = Context<Scalar>;

  static void clear(const Run& run, Scalar* data, Index size) {
    if (size) gpu::check(cudaMemsetAsync(data, 0, bytes(size), run.gpu->stream()), "a buffer was not cleared");
  }
  static void copy(const Run& run, const Scalar* from, Index size, Scalar* to) {
    if (!size) return;
    gpu::check(cudaMemcpyAsync(to, from, bytes(size), cudaMemcpyDeviceToDevice, run.gpu->stream()),
               "a buffer was not copied");
  }
  /// to += from
  static void add(const Run& run, const Scalar* from, Index size, Scalar* to) {
    gpu::add(run.gpu->stream(), from, size, to);
  }

  /// y = op(a) op(b), or y += with Write::accumulate; y (rows, cols), row by row. Factors are Scalars or bfloat16.
  template <class W, class Y>
  static void multiply(const Run& run, gpu::ProductShape shape, const W* a, const W* b, Y* y,
                       const gpu::ProductEpilogue<Y>& epilogue = {}) {
    if (std::is_same_v<W, Scalar>) shape.factors = factors;
    run.gpu->products().multiply(run.gpu->stream(), shape, a, b, y, epilogue);
  }

  template <class G>
  static constexpr Index map_scratch(const Rows& rows) {
    static_assert(literals_in_reach<G>(), "on a GPU this op reads its operands from the device's memory, where a "
                                          "literal of the code is not: give it hyper(\"name\", value) instead");
    Index most = 0;
    detail::unroll<0, G::count>([&]<int i>(std::integral_constant<int, i>) {
      constexpr bool root = G::table.info[i].looped() && G::fusion.group[i] == i;
      if constexpr (root) most = std::max(most, gpu::map_scratch<G, i>(rows));
    });
    return most;
  }

  /// Evaluates a group; the product that it finishes comes first, where the group's value will be unless it is kept.
  template <class G, int root>
  static void map_forward(const Run& run) {
    constexpr int product = G::fusion.epilogue_of[root];
    constexpr bool rounded = gpu::stores_bfloat16<Cuda, G, root>;
    using Finished = gpu::FinishedProduct<G, root>;
    using Between = gpu::BetweenProducts<Cuda, G, root>;
    if constexpr (finishes<G, root>()) {
      auto* place = gpu::stored<rounded>(const_cast<Scalar*>(Address<G>::template value<root>(run)));
      gpu::ProductEpilogue<std::remove_pointer_t<decltype(place)>> epilogue{.function = Finished::epilogue};
      if constexpr (Between::taken) epilogue = Between::making(run);
      const Scalar* bias = nullptr;
      if constexpr (Finished::bias >= 0) {
        bias = Address<G>::template value<detail::Group<G, root>::leaf(Finished::bias)>(run);
      }
      if constexpr (Finished::residual >= 0) {
        const Scalar* residual = Address<G>::template value<detail::Group<G, root>::leaf(Finished::residual)>(run);
        epilogue.residual = gpu::stored<rounded>(residual);
      }
      kernels_of<Cuda, G, product>::forward(Cuda{}, Frame<G, product, Scalar>{run}, place, epilogue, bias);
    } else if constexpr (product >= 0) {
      constexpr int home = G::plan.kept[product] ? product : root;
      Scalar* place = const_cast<Scalar*>(Address<G>::template value<home>(run));
      constexpr bool rounded_product = gpu::stores_bfloat16<Cuda, G, home>;
      kernels_of<Cuda, G, product>::forward(Cuda{}, Frame<G, product, Scalar>{run},
                                            gpu::stored<rounded_product>(place));
      gpu::map_forward<G, root, rounds_values, Scalar>(run.gpu->stream(), run, place);
    } else {
      gpu::map_forward<G, root, rounds_values, Scalar>(run.gpu->stream(), run, nullptr);
    }
  }
  /// Whether cuBLASLt does all of a group: of doubles it promises no functions, how exact its GELU is nobody says, and
  /// a residual has the type of the result.
  template <class G, int root>
  static constexpr bool finishes() {
    using Finished = gpu::FinishedProduct<G, root>;
    constexpr bool has_function = Finished::epilogue != gpu::Epilogue::none;
    if (!Finished::whole || (precision == Precision::float64 && has_function)) return false;
    if constexpr (Finished::activation == Finished::Activation::gelu) {
      constexpr bool kept = G::plan.kept[detail::Group<G, root>::product];
      return rounds_values && (!kept || gpu::BetweenProducts<Cuda, G, root>::taken);
    }
    if constexpr (Finished::residual >= 0) {
      constexpr int residual = detail::Group<G, root>::leaf(Finished::residual);
      return gpu::stores_bfloat16<Cuda, G, residual> == gpu::stores_bfloat16<Cuda, G, root>;
    }
    return true;
  }
  template <class G, int root>
  static void map_backward(const Run& run) {
    if constexpr (!gpu::BetweenProducts<Cuda, G, root>::taken) {
      gpu::map_backward<G, root, rounds_values>(run.gpu->stream(), run);
    }
  }

 private:
  /// Whether literals are operands of none but maps, whose kernels have them as constants, and of ops that take them by
  /// `one`: their kernels say which by `number_operand`.
  template <class G>
  static constexpr bool literals_in_reach() {
    bool good = true;
    detail::unroll<0, G::count>([&]<int i>(std::integral_constant<int, i>) {
      constexpr Info info = G::table.info[i];
      if constexpr (info.kind == Kind::kernel || info.kind == Kind::product) {
        int known = -1;
        if constexpr (requires { kernels_of<Cuda, G, i>::number_operand; }) {
          known = kernels_of<Cuda, G, i>::number_operand;
        }
        for (int a = 0; a < info.argument_count; ++a) {
          good &= a == known || G::table.info[info.arguments[a]].kind != Kind::number;
        }
      }
    });
    return good;
  }
  static std::size_t bytes(Index size) { return sizeof(Scalar) * static_cast<std::size_t>(size); }
};

namespace gpu {

/// The value of argument k, and the place of the node's own, as a backend stores them.
template <class Backend, int k, class F>
const auto* value_of(const F& frame) {
  return stored<stores_bfloat16<Backend, typename F::Graph, F::template argument<k>>>(frame.template in<k>());
}
template <class Backend, class F>
auto* place_of(const F& frame) {
  return stored<stores_bfloat16<Backend, typename F::Graph, F::index>>(frame.out());
}

template <class F>
cudaStream_t stream_of(const F& frame) {
  return frame.context.gpu->stream();
}

/// The result of the model that a node's value is, if nothing else reads that; or -1.
template <class F>
constexpr int result_alone() {
  using G = typename F::Graph;
  int result = -1;
  for (int i = 0; i < G::count; ++i) {
    for (int a = 0; a < G::table.info[i].argument_count; ++a) {
      if (G::table.info[i].arguments[a] != F::index) continue;
      if (result >= 0 || !G::table.info[i].result || !G::fusion.wanted[i]) return -1;
      result = i;
    }
  }
  return result;
}

/// Where backward puts a result that forward leaves to it; null if forward computes it.
template <class F>
typename F::Scalar* left_to_backward(const F& frame) {
  constexpr int result = result_alone<F>();
  if constexpr (result >= 0) {
    if (frame.context.results_after_backward) return frame.context.outputs[F::Graph::layout.output[result]];
  }
  return nullptr;
}
template <int k, class F>
inline constexpr int columns_of = static_cast<int>(F::template shape<k>.cols);

/// Operand k as one number, wherever it lies; kernels that take one say so by `number_operand`.
template <int k, class F>
One<typename F::Scalar> one(const F& frame) {
  using G = typename F::Graph;
  if constexpr (G::table.info[F::template argument<k>].kind == Kind::number) {
    return One<typename F::Scalar>(G::flat.label[F::template argument<k>].attributes.reals[0]);
  } else {
    return frame.template in<k>();
  }
}

}  // namespace gpu
}  // namespace simplx
