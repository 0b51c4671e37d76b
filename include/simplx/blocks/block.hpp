// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/blocks/block.hpp
/// A block from its token: ConfiguredBlock for a value known when the model is evaluated, Block<config> as a
/// class template. Both give the graph of the token's equation.
///
///     sequential   X_out = alpha_FF X' + beta_FF MLP(Norm2(X')),   X' = alpha_SA X + beta_SA Attention(Norm1(X))
///     parallel     X_out = alpha_comb X + beta_FF MLP(N) + beta_SA Attention(N),   N = Norm1(X)
///
/// Source  He & Hofmann 2024, Eq. (1) and (7)

#include <simplx/blocks/tokens.hpp>
#include <simplx/nn/mlp.hpp>
#include <simplx/nn/norm.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// skip + branch, without the skip where its gain is zero.
constexpr Expr with_skip(const Gain& gain, const char* name, Expr x, Expr branch) {
  return gain.is_zero() ? branch : scaled(gain, name, x) + branch;
}

struct ConfiguredProjection {
  Projection projection;
  bool bias;

  constexpr Expr operator()(Expr x) const {
    switch (projection.kind) {
      case Projection::Kind::dense: return Linear{.bias = bias, .init = projection.init}(x);
      case Projection::Kind::reparameterised: return projection.weights(x);
      default: return x;
    }
  }
};

struct ConfiguredAttention {
  BlockConfig config;
  int heads;

  template <AttentionMatrix matrix>
  constexpr Expr with_matrix(Expr x) const {
    return SelfAttention<matrix, ConfiguredProjection, ConfiguredProjection>{
        .heads = heads,
        .query_key_bias = config.query_key_bias,
        .alibi = config.alibi,
        .value = {config.value, config.value_projection_bias},
        .projection = {config.projection, config.value_projection_bias}}(x);
  }
  constexpr Expr operator()(Expr x) const {
    switch (config.matrix) {
      case AttentionMatrix::skip_init: return with_matrix<AttentionMatrix::skip_init>(x);
      case AttentionMatrix::shaped: return with_matrix<AttentionMatrix::shaped>(x);
      default: return with_matrix<AttentionMatrix::softmax>(x);
    }
  }
};

struct ConfiguredNorm {
  Norm norm;
  double epsilon;

  constexpr Expr operator()(Expr x) const {
    switch (norm) {
      case Norm::rms_norm: return RmsNorm{epsilon}(x);
      case Norm::rms_norm_inside: return RmsNormInside{epsilon}(x);
      case Norm::layer_norm: return LayerNorm{epsilon}(x);
      default: return x;
    }
  }
};

struct ConfiguredActivation {
  Activation activation;
  double slope;

  constexpr Expr operator()(Expr x) const {
    return activation == Activation::leaky_relu ? LeakyRelu{slope}(x) : Relu{}(x);
  }
};

}  // namespace detail

/// The block that a configuration describes.
///
/// Shapes  x (tokens, d) -> (tokens, d)
/// Errors  does not compile for an impossible configuration, or if heads do not divide d
struct ConfiguredBlock {
  BlockConfig config;
  int heads = 1;
  Index hidden = 0;  ///< of the MLP; four times the width of x unless given

  constexpr Expr operator()(int layer, Expr x) const {
    if (const Tag rule = config.broken_rule(); !rule.empty()) return refuse(rule, x);
    const BlockConfig c = config.at(layer);
    const auto attend = named("attention", detail::ConfiguredAttention{c, heads});
    const detail::ConfiguredActivation activation{c.activation, c.slope};
    const auto feed_forward = named("mlp", MlpOf<detail::ConfiguredActivation>{hidden, c.mlp_bias, activation});
    const auto norm1 = named("norm1", detail::ConfiguredNorm{c.first_norm ? Norm::layer_norm : c.norm, c.norm_epsilon});
    const auto norm2 = named("norm2", detail::ConfiguredNorm{c.norm, c.norm_epsilon});

    if (c.branches == Branches::parallel) {
      auto n = norm1(x);
      return detail::with_skip(c.mlp_skip, "mlp_skip", x, scaled(c.attention_gain, "attention_gain", attend(n))) +
             scaled(c.mlp_gain, "mlp_gain", feed_forward(n));
    }
    auto h = detail::with_skip(c.attention_skip, "attention_skip", x,
                               scaled(c.attention_gain, "attention_gain", attend(norm1(x))));
    return detail::with_skip(c.mlp_skip, "mlp_skip", h, scaled(c.mlp_gain, "mlp_gain", feed_forward(norm2(h))));
  }
};

/// The same as a class template: Block<sas_p>{.heads = 4, .hidden = 512}.
template <BlockConfig config>
struct Block {
  int heads = 1;
  Index hidden = 0;  ///< as in ConfiguredBlock

  constexpr Expr operator()(int layer, Expr x) const { return ConfiguredBlock{config, heads, hidden}(layer, x); }
};

}  // namespace simplx
