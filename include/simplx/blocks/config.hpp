// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/blocks/config.hpp
/// BlockConfig: a transformer block as one structural value, a token for sweeps and checkpoints.
///
/// It has a switch for every block of "Simplifying Transformer Blocks" (He & Hofmann 2024) and of "NormFormer"
/// (Shleifer et al. 2021), all of which are named in tokens.hpp. The switches are orthogonal; a combination that makes
/// no sense is refused with a sentence when the block is used. Each token has its equation in a header of this folder,
/// and tests hold that both are one graph.

#include <simplx/nn/attention.hpp>
#include <simplx/nn/residual_scale.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// Attention and MLP one after the other, or both of the same x.
enum class Branches : signed char { sequential, parallel };
/// Which norm a block has.
enum class Norm : signed char { none, layer_norm, rms_norm /* x / (r + epsilon) */, rms_norm_inside };
/// Norms of what a branch is given, or of the sum after it.
enum class NormPosition : signed char { before, after };
/// The activation of an MLP; with a gate, that of the gate.
enum class Activation : signed char { relu, leaky_relu, gelu, gelu_tanh, relu_squared };

/// How values are made of x, and the result of the heads: by x itself, x W, or x (alpha W0 + beta D).
struct Projection {
  enum class Kind : signed char { none, dense, reparameterised /* Eq. (6) */ };
  Kind kind = Kind::dense;
  Init init = normal(0.02);    ///< of W
  Reparameterised weights{};   ///< W0, alpha and beta
  constexpr bool operator==(const Projection&) const = default;
};
inline constexpr Projection no_projection{.kind = Projection::Kind::none};
constexpr Projection dense(Init init = normal(0.02)) { return {Projection::Kind::dense, init, {}}; }
constexpr Projection reparameterised(Init base, Gain alpha, Gain beta) {
  return {Projection::Kind::reparameterised, {}, {base, alpha, beta}};
}

/// A block as a value: every block of the papers is one (tokens.hpp), and others lie between them. What makes no sense
/// is refused with a sentence when the block is used.
struct BlockConfig {
  Branches branches = Branches::sequential;
  Norm norm = Norm::rms_norm;
  NormPosition norm_position = NormPosition::before;  ///< of the branches, or after their sums with the skips
  double norm_epsilon = 1e-8;
  bool first_norm = false;  ///< of blocks without norms: layer 0 keeps a LayerNorm of its input

  AttentionMatrix matrix = AttentionMatrix::softmax;
  bool alibi = false;  ///< scores fall with the distance of tokens, and the model has no positions
  Projection value{};
  Projection projection{};
  bool query_key_bias = false;
  bool value_projection_bias = false;
  bool query_key_value_norm = false;  ///< "+3 LN" of NormFormer: one norm each, over all heads
  HeadScale head_scale = HeadScale::none;
  bool attention_norm = false;  ///< post-attention norm of NormFormer: of the projected result

  Gain attention_skip{};  ///< alpha_SA
  Gain attention_gain{};  ///< beta_SA
  Gain mlp_skip{};        ///< alpha_FF; of parallel branches the one skip, alpha_comb
  Gain mlp_gain{};        ///< beta_FF
  ResidualScale attention_residual_scale = ResidualScale::none;  ///< lambda of the skips: ResScale of NormFormer
  ResidualScale mlp_residual_scale = ResidualScale::none;

  Activation activation = Activation::relu;
  double slope = 0.2;  ///< of leaky_relu
  bool gated = false;  ///< GLU: the first matrix makes [value, gate], the second has half as many rows
  bool mlp_bias = false;
  bool mlp_norm = false;  ///< FFN norm of NormFormer: after the activation

  bool first_value = false;  ///< layer 0 has a value matrix alpha I + beta D, the others have none

  constexpr bool operator==(const BlockConfig&) const = default;

  /// The configuration of one layer of a stack.
  constexpr BlockConfig at(int layer) const {
    BlockConfig config = *this;
    if (first_value && layer == 0) config.value = reparameterised(identity, trainable(1), trainable(1));
    config.first_norm = first_norm && layer == 0;
    config.first_value = false;
    return config;
  }

  /// The first rule that this configuration breaks; an empty name if there is none.
  constexpr Tag broken_rule() const {
    if (branches == Branches::parallel) {
      if (!attention_skip.is_zero()) return "parallel skip";
      if (mlp_skip.kind == Gain::Kind::trainable) return "parallel skip gain";
      if (norm_position == NormPosition::after) return "parallel post-norm";
    }
    if (attention_gain.is_zero() || mlp_gain.is_zero()) return "empty branch";
    if (first_value && value.kind != Projection::Kind::none) return "first value";
    if (first_norm && norm != Norm::none) return "first norm";
    if (norm == Norm::none) {
      if (norm_position == NormPosition::after) return "post-norm of nothing";
      if (attention_norm || mlp_norm || query_key_value_norm) return "inner norm";
    }
    if (query_key_value_norm && matrix != AttentionMatrix::softmax) return "norm of zero queries";
    if (query_key_value_norm && value.kind == Projection::Kind::none) return "norm of identity";
    const auto scales_no_skip = [&](ResidualScale scale, const Gain& skip) {
      return scale != ResidualScale::none && (skip.kind != Gain::Kind::one || branches == Branches::parallel);
    };
    if (scales_no_skip(attention_residual_scale, attention_skip)) return "residual scale";
    if (scales_no_skip(mlp_residual_scale, mlp_skip)) return "residual scale";
    if (!(slope >= 0 && slope <= 1)) return "leaky slope";
    for (const Projection& p : {value, projection}) {
      if (value_projection_bias && p.kind != Projection::Kind::dense) return "bias of identity";
      if (p.kind != Projection::Kind::reparameterised) continue;
      if (const Tag rule = p.weights.broken_rule(); !rule.empty()) return rule;
    }
    return {};
  }
};

SIMPLX_RULE("parallel skip", (possible<left, right>),
            "parallel branches have one skip, mlp_skip (alpha_comb): set .attention_skip = no_skip")
SIMPLX_RULE("parallel skip gain", (possible<left, right>),
            "the skip of parallel branches, mlp_skip (alpha_comb), is not trained: set it to no_skip or fixed_at(...)")
SIMPLX_RULE("parallel post-norm", (possible<left, right>),
            "parallel branches share one norm in front of them: set .norm_position = NormPosition::before")
SIMPLX_RULE("empty branch", (possible<left, right>),
            "a block without its attention or MLP branch is no block of the papers: a gain of a branch cannot be "
            "zero; leave it out, or set it to trainable(...) or fixed_at(...) of another number")
SIMPLX_RULE("first value", (possible<left, right>),
            "first_value gives layer 0 the value matrix that the others lack: set .value = no_projection, or drop it")
SIMPLX_RULE("first norm", (possible<left, right>),
            "first_norm gives layer 0 the norm that the others lack: set .norm = Norm::none, or drop it")
SIMPLX_RULE("leaky slope", (possible<left, right>),
            "the slope of leaky_relu lies between 0 and 1: set .slope, for example to 0.2")
SIMPLX_RULE("bias of identity", (possible<left, right>),
            "an identity or reparameterised value or projection has no bias: set .value_projection_bias = false")
SIMPLX_RULE("post-norm of nothing", (possible<left, right>),
            "a block without norms has none after its sums: set .norm, or .norm_position = NormPosition::before")
SIMPLX_RULE("inner norm", (possible<left, right>),
            "attention_norm, mlp_norm and query_key_value_norm are norms of the block's kind, which is none: set "
            ".norm, for example to Norm::layer_norm")
SIMPLX_RULE("norm of identity", (possible<left, right>),
            "without a value matrix query_key_value_norm would normalise what the block's norm has normalised: set "
            ".value = dense(), or .query_key_value_norm = false")
SIMPLX_RULE("residual scale", (possible<left, right>),
            "a residual scale stands on the skip of sequential branches, in the place of a gain: set that skip to "
            "fixed_at(1), or the scale to ResidualScale::none")

}  // namespace simplx
