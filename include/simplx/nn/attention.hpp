// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/nn/attention.hpp
/// Self-attention sub-blocks. In each head h a matrix M_h mixes the values of the tokens:
///
///     Attention(x) = Concat_h(M_h V_h) W^P,   V = x W^V
///
///     softmax     M_h = A_h                                        Eq. (2), (3)
///     skip_init   M_h = alpha_h I + beta_h A_h                     Eq. (4)
///     shaped      M_h = alpha_h I + beta_h A_h - gamma_h C         Eq. (5), (13)
///
/// | symbol  | shape        | meaning                                                                            |
/// |---------|--------------|------------------------------------------------------------------------------------|
/// | Q, K, V | (tokens, d)  | x W^Q, x W^K, x W^V; Q_h, K_h, V_h are their column blocks h, d_k = d / H wide     |
/// | A_h     | (T, T)       | softmax(Q_h K_h^T / sqrt(d_k) + mask), row by row                                  |
/// | mask    | (T, T)       | causal: 0 for j <= i, minus infinity elsewhere; with ALiBi - m_h |i - j|; with a  |
/// |         |              | window minus infinity for |i - j| >= window                                        |
/// | C       | (T, T)       | A_h at zero scores Q_h K_h^T: C_ij = 1 / i for j <= i, i from 1, without ALiBi or  |
/// |         |              | a window                                                                           |
///
/// With `key_heads` heads of keys and values, G of them, W^K and W^V are (d, G d_k), and the queries of H / G heads
/// that follow one another share K_h and V_h. [Ainslie et al. 2023]
///
/// NormFormer adds one number eta_h (its gamma_h) for each head, before W^P, Concat_h(eta_h A_h V_h) W^P, or after it,
/// and norms of the result, or of queries, keys and values. [Shleifer et al. 2021]
///
/// QK-norm divides each row of Q_h and of K_h by its size (nn/head_norm.hpp); rotary positions turn it by the place of
/// its token. [Dehghani et al. 2023; Su et al. 2021]
///
/// Where W^Q = 0, A = C; with alpha = beta = gamma = 1 shaped attention then is the identity. [He & Hofmann 2024]

#include <simplx/core/named.hpp>
#include <simplx/nn/first_layer.hpp>
#include <simplx/nn/head_norm.hpp>
#include <simplx/nn/linear.hpp>
#include <simplx/ops/attention.hpp>
#include <simplx/ops/repeat.hpp>
#include <simplx/ops/rotary.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// Concat_h(M_h V_h) from queries, keys and values; makes alpha, beta and gamma, one number for each head.
constexpr Expr mix(AttentionMatrix matrix, Expr query, Expr key, Expr value, const Heads& heads) {
  const bool gains = matrix != AttentionMatrix::softmax && heads.count > 0;  // softmax_attention refuses no heads
  if (!gains) return softmax_attention(query, key, value, heads);
  const bool centred = matrix == AttentionMatrix::shaped;
  auto alpha = vector("alpha", heads.count, ones), beta = vector("beta", heads.count, centred ? ones : zeros);
  if (!centred) return skip_init_attention(query, key, value, alpha, beta, heads);
  return shaped_attention(query, key, value, alpha, beta, vector("gamma", heads.count, ones), heads);
}

SIMPLX_RULE("key heads", left >= 1 && right % left == 0,
            "the heads of keys (left number) must divide the heads of queries (right number), which share them in "
            "groups")

SIMPLX_RULE("norm of zero queries", (possible<left, right>),
            "skip_init and shaped attention start with queries of zero, which no norm can scale: leave out "
            ".query_key_value_norm or .head_norm, or set .matrix = AttentionMatrix::softmax")

/// Where the columns of each head are multiplied by one number: nowhere, before W^P or after it.
enum class HeadScale : signed char { none, before_projection, after_projection };

namespace detail {

/// Column block h of x times eta_h, for each of the heads.
constexpr Expr scale_heads(Expr x, int heads) {
  if (x.node->kind == Kind::error) return x;
  return x * repeat_columns(vector("head_scale", heads, ones), width(x) / heads);
}

}  // namespace detail

/// Self-attention with any way to make its values and to project its result.
///
/// Matrices that mix with an identity start it as one: their queries are zero at first.
/// Shapes  x (tokens, d) -> (tokens, d)
/// Errors  does not compile if heads do not divide d
/// Source  He & Hofmann 2024, Eq. (2) to (5), initial values App. D.1; scales and norms: Shleifer et al. 2021, Sec. 2.1
template <AttentionMatrix matrix, class Value = Identity, class Output = Identity, class Norm = Identity,
          class InnerNorm = Identity>
struct SelfAttention {
  int heads = 1;
  int key_heads = 0;  ///< grouped queries: heads of keys, and of values with a matrix; as many as `heads` by default
  bool query_key_bias = false;
  bool alibi = false;  ///< scores fall with the distance of tokens; the model needs no positions then
  double rotary = 0;   ///< base of rotary positions, such as 10000; the model needs no others then; 0: none
  bool head_norm = false;  ///< QK-norm: RMSNorm of each head's queries and keys, of softmax attention
  double dropout = 0;  ///< of the weights A_h, in training; a hyper(...), "dropout.rate"
  int window = 0;      ///< query i sees key j if |i - j| < window, as the mask lets it; 0: however far
  Mask mask = Mask::causal;
  Value value{};
  Output projection{};
  HeadScale head_scale = HeadScale::none;
  Norm norm{};             ///< of the result
  InnerNorm inner_norm{};  ///< of queries, keys and values over all heads, one each

  /// The sub-block of one layer, where the value differs by layer.
  constexpr SelfAttention at(int layer) const {
    SelfAttention attention = *this;
    attention.value = at_layer(value, layer);
    return attention;
  }

  constexpr Expr operator()(Expr x) const {
    if (key_heads != 0 && (key_heads < 0 || heads % key_heads != 0)) return refuse("key heads", x, key_heads, heads);
    if (head_norm && matrix != AttentionMatrix::softmax) return refuse("norm of zero queries", x);
    const Init query_init = matrix == AttentionMatrix::softmax ? normal(0.02) : zeros;
    auto q = named("query", Linear{.bias = query_key_bias, .init = query_init})(x);  // (tokens, d)
    auto k = named("key", grouped(Linear{.bias = query_key_bias}, width(x)))(x);
    auto v = named("value", grouped(value, width(x)))(x);
    q = named("query_norm", inner_norm)(q), k = named("key_norm", inner_norm)(k);
    v = named("value_norm", inner_norm)(v);
    if (head_norm) {
      const int of_keys = shares(width(x)) ? key_heads : heads;
      q = named("query_head_norm", HeadNorm{heads})(q), k = named("key_head_norm", HeadNorm{of_keys})(k);
    }
    if (rotary != 0) {
      const Expr base = hyper("rotary_base", rotary);
      q = simplx::rotary(q, heads, base), k = simplx::rotary(k, shares(width(x)) ? key_heads : heads, base);
    }
    if (shares(width(x))) k = for_all_queries(k), v = has_matrix<Value> ? for_all_queries(v) : v;
    auto y = mix(matrix, q, k, v, {heads, mask, alibi, dropout, window});
    if (head_scale == HeadScale::before_projection) y = detail::scale_heads(y, heads);
    y = named("projection", projection)(y);
    if (head_scale == HeadScale::after_projection) y = detail::scale_heads(y, heads);
    return named("norm", norm)(y);
  }

 private:
  template <class Module>
  static constexpr bool has_matrix = requires(Module module) { module.out; };

  /// Whether groups of heads share keys and values; attention refuses heads that do not divide d.
  constexpr bool shares(Index d) const { return key_heads > 0 && key_heads < heads && d % heads == 0; }
  /// A matrix of keys or values with the columns of its heads.
  template <class Module>
  constexpr Module grouped(Module module, Index d) const {
    if constexpr (has_matrix<Module>) {
      if (shares(d) && module.out == 0) module.out = d / heads * key_heads;
    }
    return module;
  }
  /// Each head of keys or values for all queries of its group.
  constexpr Expr for_all_queries(Expr x) const {
    return x.node->kind == Kind::error ? x : repeat_columns(x, heads / key_heads, width(x) / key_heads);
  }
};

/// MHA(x) = Concat_h(A_h V_h) W^P with V = x W^V.
///
/// Source  He & Hofmann 2024, Eq. (2) and (3)
using MultiHeadAttention = SelfAttention<AttentionMatrix::softmax, Linear, Linear>;

/// Concat_h((alpha_h I + beta_h A_h - gamma_h C) V_h) with V = x, in the first layer V = x (alpha_V I + beta_V D).
///
/// Errors  does not compile unless told its layer by at(layer): rule "first layer"
/// Source  He & Hofmann 2024, Eq. (12) and (13); the first layer's value matrix: App. C (Fig. 24) and D.1
using ShapedAttention = SelfAttention<AttentionMatrix::shaped, FirstLayer<Reparameterised>>;

}  // namespace simplx
