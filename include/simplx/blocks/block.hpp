// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/blocks/block.hpp
/// A block from its token: the graph is that of the token's equation.
///
///     sequential   X_out = alpha_FF X' + beta_FF MLP(Norm2(X')),   X' = alpha_SA X + beta_SA Attention(Norm1(X))
///     parallel     X_out = alpha_comb X + beta_FF MLP(N) + beta_SA Attention(N),   N = Norm1(X)
///     post-norm    X_out = Norm2(alpha_FF X' + beta_FF MLP(X')),   X' = Norm1(alpha_SA X + beta_SA Attention(X))
///
/// With residual scales lambda o X stands for alpha X.
///
/// Source  He & Hofmann 2024, Eq. (1) and (7); Vaswani et al. 2017; Shleifer et al. 2021

#include <simplx/blocks/tokens.hpp>
#include <simplx/nn/dropout.hpp>
#include <simplx/nn/mlp.hpp>
#include <simplx/nn/norm.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// The norm of a configuration; none where that says so.
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
  constexpr ConfiguredNorm where(bool present) const { return {present ? norm : Norm::none, epsilon}; }
};

/// skip + branch: the skip has a gain or a residual scale, and is left out where its gain is zero.
struct ConfiguredSkip {
  Gain gain;
  const char* gain_name;
  ResidualScale scale;
  const char* scale_name;

  constexpr Expr operator()(Expr x, Expr branch) const {
    if (gain.is_zero()) return branch;
    return residual_scaled(scale, scale_name, scaled(gain, gain_name, x)) + branch;
  }
};

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
  const BlockConfig& config;  // not a copy: there is one in each evaluation of a layer
  int heads;
  double dropout;
  int window;
  Mask mask;

  template <AttentionMatrix matrix>
  constexpr Expr with_matrix(Expr x) const {
    const ConfiguredNorm norm{config.norm, config.norm_epsilon};
    return SelfAttention<matrix, ConfiguredProjection, ConfiguredProjection, ConfiguredNorm, ConfiguredNorm>{
        .heads = heads,
        .query_key_bias = config.query_key_bias,
        .alibi = config.alibi,
        .dropout = dropout,
        .window = window,
        .mask = mask,
        .value = {config.value, config.value_projection_bias},
        .projection = {config.projection, config.value_projection_bias},
        .head_scale = config.head_scale,
        .norm = norm.where(config.attention_norm),
        .inner_norm = norm.where(config.query_key_value_norm)}(x);
  }
  constexpr Expr operator()(Expr x) const {
    switch (config.matrix) {
      case AttentionMatrix::skip_init: return with_matrix<AttentionMatrix::skip_init>(x);
      case AttentionMatrix::shaped: return with_matrix<AttentionMatrix::shaped>(x);
      default: return with_matrix<AttentionMatrix::softmax>(x);
    }
  }
};

struct ConfiguredActivation {
  Activation activation;
  double slope;
  bool gated;

  constexpr Expr activate(Expr x) const {
    switch (activation) {
      case Activation::leaky_relu: return LeakyRelu{slope}(x);
      case Activation::gelu: return Gelu{}(x);
      case Activation::gelu_tanh: return GeluTanh{}(x);
      case Activation::relu_squared: return ReluSquared{}(x);
      default: return Relu{}(x);
    }
  }
  constexpr Expr operator()(Expr x) const {
    const auto f = [this](Expr y) { return activate(y); };
    return gated ? Gated<decltype(f)>{f}(x) : f(x);
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
  Mask mask = Mask::causal;
  double dropout = 0;            ///< of both branches, in training: "attention_dropout.rate", "mlp_dropout.rate"
  double attention_dropout = 0;  ///< of attention's weights, in training: "attention.dropout.rate"
  int window = 0;                ///< as in SelfAttention

  constexpr Expr operator()(int layer, Expr x) const {
    if (const Tag rule = config.broken_rule(); !rule.empty()) return refuse(rule, x);
    const BlockConfig c = config.at(layer);
    const detail::ConfiguredNorm norm{c.norm, c.norm_epsilon};
    const auto norm1 = named("norm1", detail::ConfiguredNorm{c.first_norm ? Norm::layer_norm : c.norm, c.norm_epsilon});
    const auto norm2 = named("norm2", norm);
    const detail::ConfiguredActivation activation{c.activation, c.slope, c.gated};
    const auto attend = [&](Expr n) {
      const detail::ConfiguredAttention attention{c, heads, attention_dropout, window, mask};
      const auto y = scaled(c.attention_gain, "attention_gain", named("attention", attention)(n));
      return named("attention_dropout", Dropout{dropout})(y);
    };
    const auto feed_forward = [&](Expr n) {
      using ConfiguredMlp = MlpOf<detail::ConfiguredActivation, detail::ConfiguredNorm>;
      const auto y = scaled(c.mlp_gain, "mlp_gain",
                            named("mlp", ConfiguredMlp{hidden, c.mlp_bias, activation, norm.where(c.mlp_norm)})(n));
      return named("mlp_dropout", Dropout{dropout})(y);
    };
    const detail::ConfiguredSkip attention_skip{c.attention_skip, "attention_skip", c.attention_residual_scale,
                                                "attention_residual_scale"};
    const detail::ConfiguredSkip mlp_skip{c.mlp_skip, "mlp_skip", c.mlp_residual_scale, "mlp_residual_scale"};

    if (c.branches == Branches::parallel) {
      auto n = norm1(x);
      return mlp_skip(x, attend(n)) + feed_forward(n);
    }
    if (c.norm_position == NormPosition::after) {
      auto h = norm1(attention_skip(x, attend(x)));
      return norm2(mlp_skip(h, feed_forward(h)));
    }
    auto h = attention_skip(x, attend(norm1(x)));
    return mlp_skip(h, feed_forward(norm2(h)));
  }
};

}  // namespace simplx
