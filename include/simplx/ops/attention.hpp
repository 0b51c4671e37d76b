// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/attention.hpp
/// Causal multi-head attention, one node: O_h = M_h V_h for each head h, with the mixing matrix
///
///     softmax    M_h = A_h                                          [He & Hofmann 2024, Eq. (2)]
///     shaped     M_h = alpha_h I + beta_h A_h - gamma_h C           [Eq. (5), (13)]
///
///     A_h = softmax(Q_h K_h^T / sqrt(d_k) + causal mask),  C = A_h at zero scores
///
/// | symbol  | shape                | meaning                                      |
/// |---------|----------------------|----------------------------------------------|
/// | Q, K    | (tokens, H * d_k)    | query and key, head h in column block h      |
/// | V, O    | (tokens, H * d_v)    | value and result                             |
/// | A, C    | (T, T) per sequence  | never stored: C V is the running mean of V   |
///
/// Where queries are zero, A equals C, and shaped attention with alpha = beta = gamma = 1 is the identity.

#include <simplx/cpu/attention.hpp>
#include <simplx/cpu/attention_reference.hpp>
#include <simplx/ops/kernel.hpp>

namespace simplx {

namespace detail {

template <Mixing mixing>
struct attention_op : kernel_op {
  static constexpr bool shaped = mixing == Mixing::shaped;
  static constexpr bool reads(int, int) { return true; }

  template <class... Gains>
  static constexpr Checked shape(const Attributes& attributes, Shape query, Shape key, Shape value, Gains... gains) {
    const Index heads = attributes.integers[0];
    for (const Shape& operand : {query, key, value}) {
      if (operand.axis != Axis::tokens) return {"token rows", static_cast<Index>(operand.axis), 1};
    }
    if (query.cols != key.cols) return {"query and key", query.cols, key.cols};
    if (heads < 1 || query.cols % heads != 0) return {"heads", heads, query.cols};
    if (value.cols % heads != 0) return {"heads", heads, value.cols};
    for (const Shape& gain : {fixed_shape(1, heads), Shape(gains)...}) {
      if (!(gain == fixed_shape(1, heads))) return {"gains per head", gain.columns(), heads};
    }
    return value;
  }
  static constexpr Index saved(const Attributes& attributes, auto...) { return attributes.integers[0]; }

  template <class F>
  struct Size {
    static constexpr int heads = static_cast<int>(F::attributes.integers[0]);
    static constexpr int key_width = static_cast<int>(F::template shape<0>.cols) / heads;
    static constexpr int value_width = static_cast<int>(F::template shape<2>.cols) / heads;
    static constexpr AttentionSize all{heads, key_width, value_width, mixing};
    template <class Backend>
    static constexpr bool fast = Backend::vectorises(key_width) && Backend::vectorises(value_width);
  };
  template <class Backend, class F>
  static constexpr Index scratch(const Rows& rows) {
    if constexpr (Size<F>::template fast<Backend>) {
      return attention_scratch(Size<F>::key_width, Size<F>::value_width, rows.longest());
    } else {
      return attention_reference_scratch(rows.longest());
    }
  }
  template <class F>
  static constexpr double flops(const Rows& rows, bool causal) {
    const double length = static_cast<double>(rows.tokens) / static_cast<double>(rows.sequences);
    const double pairs = causal ? (length + 1) / 2 : length;
    return 2 * static_cast<double>(rows.tokens) * pairs *
           static_cast<double>(F::template shape<0>.cols + F::template shape<2>.cols);
  }

  template <int k, class F>
  static auto gain(const F& frame) {
    if constexpr (shaped) {
      return frame.template in<k>();
    } else {
      return static_cast<const typename F::Scalar*>(nullptr);
    }
  }
  template <int k, class F>
  static auto gain_grad(const F& frame) {
    if constexpr (shaped) {
      return frame.template grad<k>();
    } else {
      return static_cast<typename F::Scalar*>(nullptr);
    }
  }

  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& f) {
    using Is = Size<F>;
    const S *query = f.template in<0>(), *key = f.template in<1>(), *value = f.template in<2>();
    if constexpr (Is::template fast<Cpu<S, path>>) {
      attention_forward<Is::heads, Is::key_width, Is::value_width, mixing>(
          f.context.segments, query, key, value, gain<3>(f), gain<4>(f), gain<5>(f), f.out(), f.saved(), f.scratch());
    } else {
      attention_reference_forward(Is::all, f.context.segments, query, key, value, gain<3>(f), gain<4>(f), gain<5>(f),
                                  f.out(), f.saved(), f.scratch());
    }
  }

  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& f) {
    using Is = Size<F>;
    constexpr Write dq = F::template write<0>, dk = F::template write<1>, dv = F::template write<2>;
    const S *query = f.template in<0>(), *key = f.template in<1>(), *value = f.template in<2>();
    if constexpr (Is::template fast<Cpu<S, path>>) {
      attention_backward<Is::heads, Is::key_width, Is::value_width, mixing, dq, dk, dv>(
          f.context.segments, query, key, value, gain<3>(f), gain<4>(f), gain<5>(f), f.saved(), f.out_grad(),
          f.template grad<0>(), f.template grad<1>(), f.template grad<2>(), gain_grad<3>(f), gain_grad<4>(f),
          gain_grad<5>(f), f.scratch());
    } else {
      attention_reference_backward(Is::all, dq, dk, dv, f.context.segments, query, key, value, gain<3>(f), gain<4>(f),
                                   gain<5>(f), f.saved(), f.out_grad(), f.template grad<0>(), f.template grad<1>(),
                                   f.template grad<2>(), gain_grad<3>(f), gain_grad<4>(f), gain_grad<5>(f),
                                   f.scratch());
    }
  }
};

}  // namespace detail

template <>
struct op<"attention"> : detail::attention_op<Mixing::softmax> {};
template <>
struct op<"shaped_attention"> : detail::attention_op<Mixing::shaped> {};

/// Concat_h(A_h V_h), causal within each sequence.
///
/// Shapes  query, key (tokens, H * d_k); value (tokens, H * d_v) -> (tokens, H * d_v)
/// Cost    2 (d_k + d_v) H FLOPs for each pair of tokens; keeps its operands and H numbers for each token
/// Source  He & Hofmann 2024, Eq. (2)
constexpr Expr attention(At query, At key, At value, int heads) {
  return apply<"attention">({.integers = {heads}}, query, key, value);
}

/// Concat_h((alpha_h I + beta_h A_h - gamma_h C) V_h), causal within each sequence.
///
/// Shapes  as attention; alpha, beta, gamma (1, H)
/// Cost    as attention; C costs one pass over V
/// Source  He & Hofmann 2024, Eq. (5) and (13)
constexpr Expr shaped_attention(At query, At key, At value, At alpha, At beta, At gamma, int heads) {
  return apply<"shaped_attention">({.integers = {heads}}, query, key, value, alpha, beta, gamma);
}

}  // namespace simplx
