// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/ops.cuh
/// What each op of a model runs on a GPU: it hands the node's addresses and sizes to a kernel. Ops that move numbers or
/// reduce rows have their adapters beside their kernels, in the headers that this one includes.

#include <simplx/cuda/attention_backward.cuh>
#include <simplx/cuda/bfloat16.cuh>
#include <simplx/cuda/columns.cuh>
#include <simplx/cuda/cross_entropy.cuh>
#include <simplx/cuda/cuda.cuh>
#include <simplx/cuda/dropout.cuh>
#include <simplx/cuda/embedding.cuh>
#include <simplx/cuda/linear_cross_entropy.cuh>
#include <simplx/cuda/matrices.cuh>
#include <simplx/cuda/maximum.cuh>
#include <simplx/cuda/norm.cuh>
#include <simplx/cuda/rows.cuh>
#include <simplx/cuda/sequences.cuh>
#include <simplx/cuda/sliced_products.cuh>
#include <simplx/cuda/softmax.cuh>
#include <simplx/cuda/warpgroups.cuh>
#include <simplx/ops/attention.hpp>
#include <simplx/ops/cross_entropy.hpp>
#include <simplx/ops/embedding.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/norm.hpp>
#include <simplx/ops/stop_gradient.hpp>

namespace simplx::inline SIMPLX_TARGET {

template <Precision p>
struct kernels<Cuda<p>, "matmul"> : op<"matmul"> {
  template <class Backend, class F>
  static constexpr Index scratch(const Rows&) {
    return 0;
  }
  template <class F, class S = typename F::Scalar>
  static void forward(Cuda<p>, const F& f, S* out, gpu::ProductEpilogue<S> epilogue = {}, const S* bias = nullptr) {
    using P = op<"matmul">::Product<F>;
    epilogue.bias = bias;
    Cuda<p>::multiply(f.context,
                      {.rows = f.rows(), .cols = P::N, .inner = P::K, .transpose_b = P::transposed,
                       .ld_b = P::weight.cols},
                      f.template in<0>(), f.template in<1>() + gpu::first_column(F::attributes), out, epilogue);
  }
  template <class F>
  static void forward(Cuda<p> backend, const F& f) {
    forward(backend, f, f.out());
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    using P = op<"matmul">::Product<F>;
    if constexpr (F::template write<1> != Write::skip) {
      const auto *x = f.template in<0>(), *dy = f.out_grad();
      Cuda<p>::multiply(f.context,
                        {.rows = P::weight.rows, .cols = P::transposed ? P::K : P::N, .inner = f.rows(),
                         .transpose_a = true, .write = Write::accumulate, .ld_y = P::weight.cols},
                        P::transposed ? dy : x, P::transposed ? x : dy,
                        f.template grad<1>() + gpu::first_column(F::attributes));
    }
    if constexpr (F::template write<0> != Write::skip) {
      Cuda<p>::multiply(f.context,
                        {.rows = f.rows(), .cols = P::K, .inner = P::N, .transpose_b = !P::transposed,
                         .write = F::template write<0>, .ld_b = P::weight.cols},
                        f.out_grad(), f.template in<1>() + gpu::first_column(F::attributes), f.template grad<0>());
    }
  }
};

template <Precision p>
struct kernels<Cuda<p>, "stop_gradient"> : op<"stop_gradient"> {
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    Cuda<p>::copy(f.context, f.template in<0>(), f.rows() * F::out_shape.cols, f.out());
  }
};

template <Precision p>
struct kernels<Cuda<p>, "rms_norm"> : op<"rms_norm"> {
  static constexpr int number_operand = 2;
  template <class F>
  static constexpr bool inside = op<"rms_norm">::epsilon_inside(F::attributes);

  template <class Backend, class F>
  static constexpr Index scratch(const Rows& rows) {
    constexpr Shape x = F::out_shape;
    return x.cols * gpu::norm_parts<static_cast<int>(x.cols)>(rows.count(x));
  }
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    gpu::rms_norm<typename F::Scalar, gpu::columns_of<0, F>, inside<F>>(gpu::stream_of(f), f.template in<0>(),
                                                                        f.template in<1>(), gpu::one<2>(f),
                                                                        gpu::place_of<Cuda<p>>(f), f.saved(), f.rows());
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    gpu::rms_norm_backward<typename F::Scalar, gpu::columns_of<0, F>, inside<F>, F::template write<0>>(
        gpu::stream_of(f), f.template in<0>(), f.template in<1>(), gpu::one<2>(f), f.saved(), f.out_grad(),
        f.template grad<0>(), f.template grad<1>(), f.scratch(), f.rows());
  }
};

template <Precision p>
struct kernels<Cuda<p>, "layer_norm"> : op<"layer_norm"> {
  static constexpr int number_operand = 3;
  template <class Backend, class F>
  static constexpr Index scratch(const Rows& rows) {
    constexpr Shape x = F::out_shape;
    return 2 * x.cols * gpu::norm_parts<static_cast<int>(x.cols)>(rows.count(x));
  }
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    gpu::layer_norm<typename F::Scalar, gpu::columns_of<0, F>>(gpu::stream_of(f), f.template in<0>(),
                                                               f.template in<1>(), f.template in<2>(), gpu::one<3>(f),
                                                               gpu::place_of<Cuda<p>>(f), f.saved(), f.rows());
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    gpu::layer_norm_backward<typename F::Scalar, gpu::columns_of<0, F>, F::template write<0>>(
        gpu::stream_of(f), f.template in<0>(), f.template in<1>(), f.saved(), f.out_grad(), f.template grad<0>(),
        f.template grad<1>(), f.template grad<2>(), f.scratch(), f.rows());
  }
};

template <Precision p>
struct kernels<Cuda<p>, "cross_entropy"> : op<"cross_entropy"> {
  static constexpr int number_operand = 2;
  template <class F>
  static gpu::One<typename F::Scalar> smoothing(const F& f) {
    if constexpr (op<"cross_entropy">::smooths<F>) {
      return gpu::one<2>(f);
    } else {
      return gpu::One<typename F::Scalar>(0.0);
    }
  }
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    if (gpu::left_to_backward(f)) return Cuda<p>::clear(f.context, f.out(), f.rows());
    gpu::cross_entropy<typename F::Scalar, gpu::columns_of<0, F>>(gpu::stream_of(f), gpu::value_of<Cuda<p>, 0>(f),
                                                                  f.template indices<1>(), smoothing(f), f.out(),
                                                                  f.saved(), f.rows());
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    using S = typename F::Scalar;
    constexpr bool narrow = gpu::stores_bfloat16_gradient<Cuda<p>, typename F::Graph, F::template argument<0>>;
    constexpr int classes = gpu::columns_of<0, F>;
    constexpr Write mode = F::template write<0>;
    const auto* const logits = gpu::value_of<Cuda<p>, 0>(f);
    auto* const dlogits = gpu::stored<narrow>(f.template grad<0>());
    if (S* const loss = gpu::left_to_backward(f)) {
      gpu::cross_entropy_and_backward<S, classes, mode>(gpu::stream_of(f), logits, f.template indices<1>(),
                                                        smoothing(f), f.out_grad(), loss, dlogits, f.rows());
    } else {
      gpu::cross_entropy_backward<S, classes, mode>(gpu::stream_of(f), logits, f.template indices<1>(), smoothing(f),
                                                    f.saved(), f.out_grad(), dlogits, f.rows());
    }
  }
};

template <Precision p>
struct kernels<Cuda<p>, "embedding"> : op<"embedding"> {
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    gpu::embedding<typename F::Scalar, gpu::columns_of<0, F>>(gpu::stream_of(f), f.template in<0>(),
                                                              f.template indices<1>(), f.out(), f.rows());
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    if constexpr (F::template write<0> == Write::store) {  // a table that was computed for these rows
      Cuda<p>::clear(f.context, f.template grad<0>(), f.template rows_in<0>() * F::out_shape.cols);
    }
    const Gpu::Runs& runs = f.context.gpu->runs(F::Graph::layout.input[F::template argument<1>]);
    gpu::embedding_backward<typename F::Scalar, gpu::columns_of<0, F>>(
        gpu::stream_of(f), runs.rows.data(), runs.runs.data(), f.rows(), f.out_grad(), f.template grad<0>());
  }
};

template <Precision p>
struct kernels<Cuda<p>, "positions"> : op<"positions"> {
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    gpu::positions<typename F::Scalar, gpu::columns_of<0, F>>(
        gpu::stream_of(f), f.template in<0>(), f.context.past, f.context.segments, f.context.longest, f.out());
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    gpu::positions_backward<typename F::Scalar, gpu::columns_of<0, F>>(
        gpu::stream_of(f), f.context.segments, f.context.longest, f.out_grad(), f.template grad<0>());
  }
};

namespace gpu {

template <Precision p, AttentionMatrix matrix>
struct attention_kernels : detail::attention_op<matrix> {
  using Op = detail::attention_op<matrix>;
  template <class F>
  using Cores = std::conditional_t<p == Precision::bfloat16, BFloat16Cores, CudaCores<typename F::Scalar>>;

  /// As the backend stores them.
  template <class F>
  static auto operands(const F& f) {
    const auto in = Op::operands(f);
    const auto mixed = [&](auto* query, auto* key, auto* value) {
      using Mixed = MixedOperands<std::remove_cvref_t<decltype(*query)>, std::remove_cvref_t<decltype(*key)>,
                                  std::remove_cvref_t<decltype(*value)>, typename F::Scalar>;
      Mixed all{query, key, value, in.alpha, in.beta, in.gamma, in.slopes};
      if constexpr (Op::template size<F>.drops) {
        all.draw = {Op::dropout_rate(f), f.context.gpu->draw(), detail::node_key(f)};
      }
      return all;
    };
    return mixed(value_of<Cuda<p>, 0>(f), value_of<Cuda<p>, 1>(f), value_of<Cuda<p>, 2>(f));
  }

  template <class Backend, class F>
  static constexpr Index scratch(const Rows& rows) {
    return attention_backward_scratch<Op::template size<F>, Cores<F>>(rows.tokens, rows.sequences, rows.longest());
  }
  template <class F>
  static void forward(Cuda<p>, const F& f) {
    constexpr AttentionSize dropping = Op::template size<F>, whole = Op::template size<F, false>;
    return drops_now(f) ? forward_of<dropping>(f) : forward_of<whole>(f);
  }
  template <class F>
  static void backward(Cuda<p>, const F& f) {
    constexpr AttentionSize dropping = Op::template size<F>, whole = Op::template size<F, false>;
    return drops_now(f) ? backward_of<dropping>(f) : backward_of<whole>(f);
  }

 private:
  /// Whether weights may be dropped now: the rate is read on the device.
  template <class F>
  static bool drops_now(const F& f) {
    return Op::template size<F>.drops && f.context.random.training;
  }
  template <AttentionSize size, class F>
  static void forward_of(const F& f) {
    const auto& [offsets, sequences] = f.context.segments;
    attention<size, Cores<F>>(stream_of(f), offsets, sequences, f.context.longest, operands(f), place_of<Cuda<p>>(f),
                              f.saved());
  }
  template <AttentionSize size, class F>
  static void backward_of(const F& f) {
    const auto& [offsets, sequences] = f.context.segments;
    attention_backward<size, Cores<F>, F::template write<0>, F::template write<1>, F::template write<2>>(
        stream_of(f), offsets, sequences, f.context.longest, operands(f), f.saved(), result_of(f),
        stored<stores_bfloat16_gradient<Cuda<p>, typename F::Graph, F::index>>(f.out_grad()), gradients(f),
        f.scratch());
  }
  /// What forward gave, if it is still there.
  template <class F>
  static auto result_of(const F& f) {
    constexpr auto& plan = F::Graph::plan;
    if constexpr (plan.kept[F::index] && !plan.over_value[plan.shares[F::index]]) {
      return place_of<Cuda<p>>(f);
    } else {
      return static_cast<const void*>(nullptr);
    }
  }
  template <int k, class F>
  static constexpr bool narrow = stores_bfloat16_gradient<Cuda<p>, typename F::Graph, F::template argument<k>>;
  /// As the backend stores them.
  template <class F>
  static auto gradients(const F& f) {
    using S = typename F::Scalar;
    const auto to = Op::gradients(f);
    return AttentionGradients<S, Stored<narrow<0, F>, S>, Stored<narrow<1, F>, S>, Stored<narrow<2, F>, S>>{
        stored<narrow<0, F>>(to.query), stored<narrow<1, F>>(to.key), stored<narrow<2, F>>(to.value),
        to.alpha, to.beta, to.gamma};
  }
};

}  // namespace gpu

template <Precision p>
struct kernels<Cuda<p>, "softmax_attention"> : gpu::attention_kernels<p, AttentionMatrix::softmax> {};
template <Precision p>
struct kernels<Cuda<p>, "skip_init_attention"> : gpu::attention_kernels<p, AttentionMatrix::skip_init> {};
template <Precision p>
struct kernels<Cuda<p>, "shaped_attention"> : gpu::attention_kernels<p, AttentionMatrix::shaped> {};

}  // namespace simplx
