// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/blocks/block.hpp
/// A block from its token: ConfiguredBlock for a value known when the model is evaluated, Block<config> as a
/// class template. Both give the graph of the token's equation.
///
///     sequential   X_out = a_FF X' + b_FF MLP(Norm(X')),   X' = a_SA X + b_SA Attention(Norm(X))      Eq. (1)
///     parallel     X_out = a_comb X + b_SA Attention(N) + b_FF MLP(N),   N = Norm(X)                   Eq. (7)

#include <simplx/blocks/config.hpp>
#include <simplx/nn/attention.hpp>
#include <simplx/nn/mlp.hpp>
#include <simplx/nn/norm.hpp>

namespace simplx {

namespace detail {

/// gain * x; without a factor where the gain is one.
constexpr Expr scaled(Gain gain, const char* name, Expr x) {
  switch (gain.kind) {
    case Gain::Kind::trainable: return scalar(name, constant(gain.value)) * x;
    case Gain::Kind::fixed: return gain.value * x;
    default: return x;
  }
}

/// skip + branch, without the skip where its gain is zero.
constexpr Expr with_skip(Gain gain, const char* name, Expr x, Expr branch) {
  return gain.kind == Gain::Kind::zero ? branch : scaled(gain, name, x) + branch;
}

/// W or alpha I + beta D or nothing, in front of or behind the attention matrix.
struct ConfiguredProjection {
  Projection kind;
  Gain base_gain, delta_gain;
  bool bias;

  constexpr Expr operator()(Expr x) const {
    switch (kind) {
      case Projection::dense: return Linear{width(x), bias}(x);
      case Projection::reparameterised:
        return scaled(base_gain, "alpha", x) +
               scaled(delta_gain, "beta", x * weight("delta", width(x), width(x), zeros));
      default: return x;
    }
  }
};

struct ConfiguredAttention {
  BlockConfig config;
  int heads;

  constexpr Expr operator()(Expr x) const {
    const bool shaped = config.matrix == AttentionMatrix::shaped;
    const auto projected = [&](Projection kind) {
      return ConfiguredProjection{kind, config.base_gain, config.delta_gain, config.value_projection_bias};
    };
    auto query = named("query", Linear{width(x), config.query_key_bias, shaped ? zeros : normal(0.02)})(x);
    auto key = named("key", Linear{width(x), config.query_key_bias})(x);
    auto value = named("value", projected(config.value))(x);
    auto mixed = shaped ? shaped_attention(query, key, value, vector("alpha", heads), vector("beta", heads),
                                           vector("gamma", heads), {.count = heads})
                        : softmax_attention(query, key, value, {.count = heads});
    return named("projection", projected(config.projection))(mixed);
  }
};

struct ConfiguredNorm {
  BlockConfig config;

  constexpr Expr operator()(Expr x) const {
    switch (config.norm) {
      case Norm::rms_norm: return RmsNorm{config.norm_epsilon}(x);
      case Norm::layer_norm: return LayerNorm{config.norm_epsilon}(x);
      default: return x;
    }
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
  Index hidden = 0;

  constexpr Expr operator()(int layer, Expr x) const {
    const BlockConfig c = config.at(layer);
    if (const Tag rule = c.broken_rule(); !rule.empty()) return refuse(rule, x);
    const auto attend = named("attention", detail::ConfiguredAttention{c, heads});
    const auto feed_forward = named("mlp", Mlp{hidden, c.mlp_bias});
    const detail::ConfiguredNorm norm{c};

    if (c.branches == Branches::parallel) {
      auto n = named("norm1", norm)(x);
      auto sum = detail::scaled(c.attention_gain, "attention_gain", attend(n)) +
                 detail::scaled(c.mlp_gain, "mlp_gain", feed_forward(n));
      return detail::with_skip(c.mlp_skip, "mlp_skip", x, sum);
    }
    auto branch = detail::scaled(c.attention_gain, "attention_gain", attend(named("norm1", norm)(x)));
    auto h = detail::with_skip(c.attention_skip, "attention_skip", x, branch);
    branch = detail::scaled(c.mlp_gain, "mlp_gain", feed_forward(named("norm2", norm)(h)));
    return detail::with_skip(c.mlp_skip, "mlp_skip", h, branch);
  }
};

/// The same as a class template: Block<sas_p>{.heads = 4, .hidden = 512}.
template <BlockConfig config>
struct Block {
  int heads = 1;
  Index hidden = 0;

  constexpr Expr operator()(int layer, Expr x) const { return ConfiguredBlock{config, heads, hidden}(layer, x); }
};

}  // namespace simplx
