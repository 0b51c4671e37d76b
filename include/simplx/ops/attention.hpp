// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/attention.hpp
/// Multi-head attention, one node: O_h = M_h V_h for each head h, with the mixing matrix
///
///     softmax      M_h = A_h                                          [He & Hofmann 2024, Eq. (2)]
///     skip_init    M_h = alpha_h I + beta_h A_h                       [Eq. (4)]
///     shaped       M_h = alpha_h I + beta_h A_h - gamma_h C_h         [Eq. (5), (13)]
///
///     A_h = softmax(Q_h K_h^T / sqrt(d_k) + mask - m_h |i - j|),  C_h = A_h at zero queries
///
/// The mask leaves each token those before it and itself, or all of them, and of these with a window the nearest.
///
/// | symbol  | shape                | meaning                                                          |
/// |---------|----------------------|------------------------------------------------------------------|
/// | Q, K    | (tokens, H * d_k)    | query and key, head h in column block h                          |
/// | V, O    | (tokens, H * d_v)    | value and result                                                 |
/// | A, C    | (T, T) per sequence  | never stored: C V is a running mean of V, from both sides if full |
/// | m       | (1, H)               | slopes of ALiBi [Press et al. 2022]; zero without                |
///
/// In training a weight of A_h is 0 with probability p, the dropout of the heads, and else A_ij / (1 - p) [Vaswani et
/// al. 2017, in their code]. Masks depend on what those of ops/dropout.hpp do.
/// Where queries are zero, A equals C, and shaped attention with alpha = beta = gamma = 1 is the identity.
/// Sequences are packed, so no mask is ever stored: a token sees none but tokens of its own sequence.

#include <simplx/cpu/attention.hpp>
#include <simplx/cpu/attention_reference.hpp>
#include <simplx/ops/dropout.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// How heads attend: `{.count = 4}`, `{.count = 8, .mask = Mask::full}`, `{.count = 8, .alibi = true}`,
/// `{.count = 8, .dropout = 0.1}`, `{.count = 8, .window = 256}`.
struct Heads {
  int count = 1;
  Mask mask = Mask::causal;
  bool alibi = false;  ///< scores fall with distance, by a slope of each head's own: a named constant, "slopes"
  double dropout = 0;  ///< in training, of the weights: the rate is a hyper(...), "dropout.rate"; 0 leaves no trace
  int window = 0;      ///< token i sees those j with |i - j| < window, as the mask lets it; 0: however far
};

namespace detail {

constexpr Attributes attributes_of(const Heads& heads) {
  return {.integers = {heads.count, static_cast<Index>(heads.mask), heads.alibi + 2 * (heads.dropout != 0),
                       heads.window}};
}
constexpr Heads heads_in(Attributes attributes) {
  return {.count = static_cast<int>(attributes.integers[0]),
          .mask = static_cast<Mask>(attributes.integers[1]),
          .alibi = attributes.integers[2] % 2 != 0,
          .window = static_cast<int>(attributes.integers[3])};
}

constexpr bool drops_weights(Attributes attributes) { return attributes.integers[2] / 2 != 0; }

/// Operands: query, key, value; the gains of the mixing; slopes if there is a bias; the rate if weights are dropped.
template <AttentionMatrix matrix>
struct attention_op : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr int gains = matrix == AttentionMatrix::softmax ? 0 : matrix == AttentionMatrix::skip_init ? 2 : 3;
  static constexpr bool reads(int, int) { return true; }

  template <class... PerHead>
  static constexpr Checked shape(const Attributes& attributes, Shape query, Shape key, Shape value,
                                 PerHead... per_head) {
    const Heads how = heads_in(attributes);
    const Index heads = how.count, window = how.window;
    if (window < 0) return {"window", window, heads};
    const Axis other = query.axis != Axis::tokens ? query.axis : key.axis != Axis::tokens ? key.axis : value.axis;
    if (other != Axis::tokens) return {"token rows", static_cast<Index>(other), 1};
    if (query.cols != key.cols) return {"query and key", query.cols, key.cols};
    if (heads < 1 || query.cols % heads != 0) return {"heads", heads, query.cols};
    if (value.cols % heads != 0) return {"heads", heads, value.cols};
    int left = static_cast<int>(sizeof...(per_head)) - drops_weights(attributes);  // the rate is one number
    const Shape one_each = fixed_shape(1, heads);
    Shape gain = one_each;  // the first that does not fit
    ((gain = left-- > 0 && gain == one_each ? Shape(per_head) : gain), ...);
    if (!(gain == one_each)) return {"gains per head", gain.columns(), heads};
    return value;
  }
  static constexpr Index saved(const Attributes& attributes, auto...) { return heads_in(attributes).count; }
  static std::string settings(const Attributes& attributes) {
    const Heads heads = heads_in(attributes);
    return "heads " + std::to_string(heads.count) + (heads.mask == Mask::causal ? ", causal" : ", full") +
           (heads.window == 0 ? "" : ", window " + std::to_string(heads.window));
  }

  template <class F, bool drops = drops_weights(F::attributes)>
  static constexpr AttentionSize size{
      .heads = heads_in(F::attributes).count,
      .key_width = static_cast<int>(F::template shape<0>.cols) / heads_in(F::attributes).count,
      .value_width = static_cast<int>(F::template shape<2>.cols) / heads_in(F::attributes).count,
      .matrix = matrix,
      .mask = heads_in(F::attributes).mask,
      .alibi = heads_in(F::attributes).alibi,
      .drops = drops,
      .window = heads_in(F::attributes).window};

  template <class Backend, class F>
  static constexpr Index scratch(const Rows& rows) {
    if constexpr (Backend::by_vectors) {
      return cpu::attention_scratch<size<F>, typename Backend::Scalar>(rows.longest());
    } else {
      return cpu::attention_reference_scratch(rows.longest());
    }
  }
  template <class F>
  static constexpr double flops(const Rows& rows, bool causal) {
    const double length = static_cast<double>(rows.tokens) / static_cast<double>(rows.sequences);
    return 2 * static_cast<double>(rows.tokens) * keys_of_query<F>(length, causal) *
           static_cast<double>(F::template shape<0>.cols + F::template shape<2>.cols);
  }

  template <class F>
  static auto operands(const F& f) {
    AttentionOperands<typename F::Scalar> in{f.template in<0>(), f.template in<1>(), f.template in<2>()};
    if constexpr (gains > 0) in.alpha = f.template in<3>(), in.beta = f.template in<4>();
    if constexpr (gains > 2) in.gamma = f.template in<5>();
    if constexpr (size<F>.alibi) in.slopes = f.template in<3 + gains>();
    return in;
  }
  template <class F>
  static const typename F::Scalar* dropout_rate(const F& f) {
    return f.template in<3 + gains + size<F>.alibi>();
  }
  template <class F>
  static auto gradients(const F& f) {
    AttentionGradients<typename F::Scalar> to{f.template grad<0>(), f.template grad<1>(), f.template grad<2>()};
    if constexpr (gains > 0) to.alpha = f.template grad<3>(), to.beta = f.template grad<4>();
    if constexpr (gains > 2) to.gamma = f.template grad<5>();
    return to;
  }

  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& f) {
    with_draw(f, [&](auto drops, const AttentionOperands<S>& in) {
      constexpr AttentionSize of = size<F, drops>;
      if constexpr (Cpu<S, path>::by_vectors) {
        cpu::attention_forward<of>(f.context.segments, in, f.out(), f.saved(), f.scratch());
      } else {
        cpu::attention_reference_forward(of, f.context.segments, in, f.out(), f.saved(), f.scratch());
      }
    });
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& f) {
    with_draw(f, [&](auto drops, const AttentionOperands<S>& in) {
      constexpr AttentionSize of = size<F, drops>;
      constexpr Write dq = F::template write<0>, dk = F::template write<1>, dv = F::template write<2>;
      if constexpr (Cpu<S, path>::by_vectors) {
        cpu::attention_backward<of, dq, dk, dv>(f.context.segments, in, f.saved(), f.out_grad(), gradients(f),
                                                f.scratch());
      } else {
        cpu::attention_reference_backward(of, dq, dk, dv, f.context.segments, in, f.out_grad(), gradients(f),
                                          f.scratch());
      }
    });
  }

 private:
  /// How many keys a query of a sequence sees, on average; `causal`: without what a causal mask leaves out.
  template <class F>
  static constexpr double keys_of_query(double length, bool causal) {
    constexpr double window = size<F>.window;
    const double most = window == 0 || window > length ? length : window;
    const double to_one_side = most - most * (most - 1) / (2 * length);
    if (size<F>.mask == Mask::causal) return causal ? to_one_side : most;
    return most == length ? length : 2 * to_one_side - 1;
  }
  /// Calls run(drops, operands): whether weights are dropped now, as a constant.
  template <class F, class Run>
  static void with_draw(const F& f, Run run) {
    auto in = operands(f);
    if constexpr (size<F>.drops) {
      const Randomness& random = f.context.random;
      const Draw step{random.key, random.first_sequence};
      in.draw = {static_cast<double>(*dropout_rate(f)), &step, node_key(f)};
      if (random.training && in.draw.rate > 0) return run(std::true_type(), in);
    }
    run(std::false_type(), in);
  }
};

/// The node; slopes and rate follow the other operands.
template <Tag name, class... Operands>
constexpr Expr attend(const Heads& heads, const At& query, const Operands&... others) {
  if (heads.count < 1) return refuse("heads", query, heads.count, query.shape().cols);  // before slopes of no heads
  const Where where = query.where;
  const auto with = [&](const auto&... last) { return apply<name>(attributes_of(heads), query, others..., last...); };
  const auto with_slopes = [&](const auto&... last) {
    return heads.alibi ? with(At(fixed("slopes", 1, heads.count, alibi_slopes, where), where), last...) : with(last...);
  };
  if (heads.dropout == 0) return with_slopes();
  const At rate(hyper("dropout.rate", heads.dropout, where), where);
  return drawing("dropout.mask", with_slopes(rate), rate);
}

}  // namespace detail

template <>
struct op<"softmax_attention"> : detail::attention_op<AttentionMatrix::softmax> {};
template <>
struct op<"skip_init_attention"> : detail::attention_op<AttentionMatrix::skip_init> {};
template <>
struct op<"shaped_attention"> : detail::attention_op<AttentionMatrix::shaped> {};

/// Concat_h(A_h V_h) within each sequence.
///
/// Shapes  query, key (tokens, H * d_k); value (tokens, H * d_v) -> (tokens, H * d_v)
/// Errors  does not compile along another axis, for unequal widths of query and key, heads that do not divide the
///         widths, a window below 0, or a dropout that is no probability: rules "token rows", "query and key",
///         "heads", "window", "dropout rate"
/// Cost    2 (d_k + d_v) H FLOPs for each pair of tokens, in a window of those that see each other; keeps its operands
///         and H numbers for each token
/// Source  He & Hofmann 2024, Eq. (2)
constexpr Expr softmax_attention(At query, At key, At value, Heads heads) {
  return detail::attend<"softmax_attention">(heads, query, key, value);
}

/// Concat_h((alpha_h I + beta_h A_h) V_h) within each sequence.
///
/// Shapes  as softmax_attention; alpha, beta (1, H)
/// Errors  as softmax_attention, and for gains of another width: rule "gains per head"
/// Cost    as softmax_attention
/// Source  He & Hofmann 2024, Eq. (4)
constexpr Expr skip_init_attention(At query, At key, At value, At alpha, At beta, Heads heads) {
  return detail::attend<"skip_init_attention">(heads, query, key, value, alpha, beta);
}

/// Concat_h((alpha_h I + beta_h A_h - gamma_h C_h) V_h) within each sequence.
///
/// Shapes  as softmax_attention; alpha, beta, gamma (1, H)
/// Errors  as skip_init_attention
/// Cost    as softmax_attention; C costs a pass over V from each side that tokens see, in a window two
/// Source  He & Hofmann 2024, Eq. (5) and (13)
constexpr Expr shaped_attention(At query, At key, At value, At alpha, At beta, At gamma, Heads heads) {
  return detail::attend<"shaped_attention">(heads, query, key, value, alpha, beta, gamma);
}

}  // namespace simplx
