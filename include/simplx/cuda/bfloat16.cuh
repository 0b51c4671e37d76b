// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/bfloat16.cuh
/// Products x W of Cuda<Precision::bfloat16>: both factors are rounded on their way to the tensor cores, unless they
/// are stored so (bfloat16_values.cuh, device_parameters.cuh); sums are float. Parameters and gradients stay float.

#include <simplx/cuda/cuda.cuh>
#include <simplx/cuda/rounded.cuh>
#include <simplx/cuda/sliced_products.cuh>
#include <simplx/ops/matmul.hpp>

namespace simplx::inline SIMPLX_TARGET {

template <>
struct kernels<Cuda<Precision::bfloat16>, "matmul"> : op<"matmul"> {
  using Backend = Cuda<Precision::bfloat16>;
  template <class F>
  static constexpr bool weight_beside = gpu::rounded_beside<F, 1> && gpu::first_column(F::attributes) % 8 == 0;

  template <class, class F>
  static constexpr Index scratch(const Rows& rows) {
    using P = Product<F>;
    constexpr Shape x = F::template shape<0>, w = P::weight;
    const Index count = rows.count(x);
    using G = typename F::Graph;
    const bool x_stored_so = gpu::stores_bfloat16<Backend, G, F::template argument<0>>;
    const bool dy_rounded = G::fusion.wanted[F::index] && !gpu::stores_bfloat16_gradient<Backend, G, F::index>;
    return (x_stored_so ? 0 : gpu::rounded_scratch(count, P::K)) +
           (weight_beside<F> ? 0 : gpu::rounded_scratch(w.rows, w.cols)) +
           std::max(dy_rounded ? gpu::rounded_scratch(count, P::N) : 0, gpu::rounded_scratch(1, P::N)) +  // or a bias
           round_up(P::N, alignment);  // gradient of the bias
  }
  /// Into numbers of float or bfloat16; a bias has the type of the result.
  template <class F, class Y>
  static void forward(Backend, const F& f, Y* out, gpu::ProductEpilogue<Y> epilogue = {}, const float* bias = nullptr) {
    using P = Product<F>;
    float* scratch = f.scratch();
    const gpu::Rounded x = rounded<0>(f, scratch), w = rounded<1>(f, scratch);
    if constexpr (std::is_same_v<Y, float>) {
      epilogue.bias = bias;
    } else if (bias) {
      epilogue.bias = gpu::round_to_bfloat16<P::N>(gpu::stream_of(f), bias, 1, scratch).data;
    }
    multiply(f, {.rows = f.rows(), .cols = P::N, .inner = P::K, .transpose_b = P::transposed}, x, w, out, epilogue);
  }
  template <class F>
  static void forward(Backend backend, const F& f) {
    forward(backend, f, gpu::place_of<Backend>(f));
  }
  template <class F>
  static void backward(Backend, const F& f) {
    using P = Product<F>;
    using G = typename F::Graph;
    float* scratch = f.scratch();
    const gpu::Rounded dy = [&]() -> gpu::Rounded {
      if constexpr (gpu::stores_bfloat16_gradient<Backend, G, F::index>) {
        return {gpu::stored<true>(f.out_grad()), P::N};
      }
      return gpu::round_to_bfloat16<P::N>(gpu::stream_of(f), f.out_grad(), f.rows(), scratch);
    }();
    if constexpr (F::template write<1> != Write::skip) {
      const gpu::Rounded x = rounded<0>(f, scratch);
      constexpr int bias = bias_of<F>();
      gpu::ProductEpilogue<float> epilogue{};
      if constexpr (bias >= 0) epilogue = {.function = gpu::Epilogue::sums_of_b, .sums = scratch};
      multiply(f, {.rows = P::weight.rows, .cols = P::transposed ? P::K : P::N, .inner = f.rows(),
                   .transpose_a = true, .write = Write::accumulate, .ld_y = P::weight.cols},
               P::transposed ? dy : x, P::transposed ? x : dy, f.template grad<1>() + gpu::first_column(F::attributes),
               epilogue);
      if constexpr (bias >= 0) {
        Backend::add(f.context, scratch, P::N, Address<G>::template gradient<bias>(f.context));
        scratch += round_up(P::N, alignment);
      }
    }
    if constexpr (F::template write<0> != Write::skip) {
      constexpr bool narrow = gpu::stores_bfloat16_gradient<Backend, G, F::template argument<0>>;
      using Before = gpu::BetweenProducts<Backend, G, F::template argument<0>>;
      const gpu::Rounded w = rounded<1>(f, scratch);
      gpu::ProductEpilogue<gpu::Stored<narrow, float>> epilogue{};
      if constexpr (Before::taken) epilogue = Before::pulling_back(f.context);
      multiply(f, {.rows = f.rows(), .cols = P::K, .inner = P::N, .transpose_b = !P::transposed,
                   .write = F::template write<0>},
               dy, w, gpu::stored<narrow>(f.template grad<0>()), epilogue);
    }
  }

 private:
  /// The parameter whose gradient the product of dW adds up in passing, or -1.
  template <class F>
  static constexpr int bias_of() {
    using G = typename F::Graph;
    constexpr int root = G::fusion.finished_by[F::index];
    if constexpr (root >= 0) return gpu::BetweenProducts<Backend, G, root>::bias;
    return -1;
  }
  /// An operand as it is, if it is stored so.
  template <int k, class F>
  static gpu::Rounded rounded(const F& f, float*& scratch) {
    constexpr Index stride = F::template shape<k>.cols, from = k == 1 ? gpu::first_column(F::attributes) : 0;
    constexpr Index cols = k == 1 && !Product<F>::transposed ? Product<F>::N : stride;
    const auto* const value = gpu::value_of<Backend, k>(f) + from;
    if constexpr (gpu::stores_bfloat16<Backend, typename F::Graph, F::template argument<k>>) {
      return {value, stride};
    } else if constexpr (k == 1 && weight_beside<F>) {
      return {f.context.gpu->rounded(value), stride};
    } else {
      return gpu::round_to_bfloat16<cols, stride>(gpu::stream_of(f), value, f.template rows_in<k>(), scratch);
    }
  }
  template <class F, class Y>
  static void multiply(const F& f, gpu::ProductShape shape, const gpu::Rounded& a, const gpu::Rounded& b, Y* y,
                       const gpu::ProductEpilogue<Y>& epilogue = {}) {
    shape.ld_a = a.stride, shape.ld_b = b.stride;
    Backend::multiply(f.context, shape, a.data, b.data, y, epilogue);
  }
};

}  // namespace simplx
