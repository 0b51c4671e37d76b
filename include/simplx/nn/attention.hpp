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
/// | mask    | (T, T)       | causal: 0 for j <= i, minus infinity elsewhere; with ALiBi - m_h |i - j|  |
/// | C       | (T, T)       | A_h at zero scores Q_h K_h^T: C_ij = 1 / i for j <= i, i from 1, without ALiBi     |
///
/// NormFormer adds one number eta_h (its gamma_h) for each head, before W^P, Concat_h(eta_h A_h V_h) W^P, or after it,
/// and norms of the result, or of queries, keys and values. [Shleifer et al. 2021]
///
/// Where W^Q = 0, A = C; with alpha = beta = gamma = 1 shaped attention then is the identity. [He & Hofmann 2024]

#include <simplx/core/walk.hpp>
#include <simplx/nn/first_layer.hpp>
#include <simplx/nn/linear.hpp>
#include <simplx/ops/attention.hpp>
#include <simplx/ops/repeat.hpp>

namespace simplx::inline SIMPLX_TARGET {

using AttentionMatrix = Mixing;  ///< softmax, skip_init: Eq. (4), shaped: Eq. (5)

/// Concat_h(M_h V_h) from queries, keys and values; makes alpha, beta and gamma, one number for each head.
constexpr Expr mix(AttentionMatrix matrix, Expr query, Expr key, Expr value, const Heads& heads) {
  const bool gains = matrix != AttentionMatrix::softmax && heads.count > 0;  // softmax_attention refuses no heads
  if (!gains) return softmax_attention(query, key, value, heads);
  const bool centred = matrix == AttentionMatrix::shaped;
  auto alpha = vector("alpha", heads.count, ones), beta = vector("beta", heads.count, centred ? ones : zeros);
  if (!centred) return skip_init_attention(query, key, value, alpha, beta, heads);
  return shaped_attention(query, key, value, alpha, beta, vector("gamma", heads.count, ones), heads);
}

/// Where the columns of each head are multiplied by one number: nowhere, before W^P or after it.
enum class HeadScale : signed char { none, before_projection, after_projection };

/// Column block h of x times eta_h, for each of the heads.
constexpr Expr scale_heads(Expr x, int heads) {
  if (x.node->kind == Kind::error) return x;
  return x * repeat_columns(vector("head_scale", heads, ones), width(x) / heads);
}

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
  bool query_key_bias = false;
  bool alibi = false;  ///< scores fall with the distance of tokens; the model needs no positions then
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
    const Init query_init = matrix == AttentionMatrix::softmax ? normal(0.02) : zeros;
    auto q = named("query", Linear{.bias = query_key_bias, .init = query_init})(x);  // (tokens, d)
    auto k = named("key", Linear{.bias = query_key_bias})(x);
    auto v = named("value", value)(x);
    q = named("query_norm", inner_norm)(q), k = named("key_norm", inner_norm)(k);
    v = named("value_norm", inner_norm)(v);
    auto y = mix(matrix, q, k, v, {heads, mask, alibi});
    if (head_scale == HeadScale::before_projection) y = scale_heads(y, heads);
    y = named("projection", projection)(y);
    if (head_scale == HeadScale::after_projection) y = scale_heads(y, heads);
    return named("norm", norm)(y);
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
