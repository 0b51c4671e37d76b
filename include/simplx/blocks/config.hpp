// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/blocks/config.hpp
/// BlockConfig: every block of the two papers as one structural value, a token for sweeps and checkpoints.
///
/// The switches are orthogonal; a combination that makes no sense is refused with a sentence when the block is
/// used. Each token has its equation beside it (pre_ln.hpp, sas_p.hpp), and tests hold that both are one graph.

#include <simplx/core/rules.hpp>

namespace simplx {

enum class Branches : signed char { sequential, parallel };
enum class Norm : signed char { none, layer_norm, rms_norm /* x / (r + epsilon) */, rms_norm_inside };
enum class NormPosition : signed char { before, after };
enum class AttentionMatrix : signed char { softmax, skip_init /* Eq. (4) */, shaped /* Eq. (5) */ };
enum class Projection : signed char { identity, dense, reparameterised /* Eq. (6) */ };
enum class Activation : signed char { relu, leaky_relu, gelu, gelu_tanh, relu_squared };
enum class HeadScale : signed char { none, before_projection, after_projection };
enum class ResidualScale : signed char { none, number, vector };

/// A scalar in front of a branch or a skip: absent when one, with its branch when zero.
struct Gain {
  enum class Kind : signed char { one, zero, fixed, trainable };
  Kind kind = Kind::one;
  double value = 1;
};
inline constexpr Gain no_branch{Gain::Kind::zero, 0};
constexpr Gain fixed_at(double value) { return {Gain::Kind::fixed, value}; }
constexpr Gain trainable(double initial) { return {Gain::Kind::trainable, initial}; }

struct BlockConfig {
  Branches branches = Branches::sequential;
  Norm norm = Norm::rms_norm;
  NormPosition norm_position = NormPosition::before;
  double norm_epsilon = 1e-8;

  AttentionMatrix matrix = AttentionMatrix::softmax;
  Projection value = Projection::dense;
  Projection projection = Projection::dense;
  Gain base_gain{};   ///< alpha of Eq. (6)
  Gain delta_gain{};  ///< beta of Eq. (6)
  bool query_key_bias = false;
  bool value_projection_bias = false;
  bool query_key_value_norm = false;  ///< "+3 LN" of NormFormer
  HeadScale head_scale = HeadScale::none;
  bool attention_norm = false;  ///< post-attention norm of NormFormer

  Gain attention_skip{};  ///< alpha_SA
  Gain attention_gain{};  ///< beta_SA
  Gain mlp_skip{};        ///< alpha_FF; of parallel branches the one skip, alpha_comb
  Gain mlp_gain{};        ///< beta_FF
  ResidualScale attention_residual_scale = ResidualScale::none;
  ResidualScale mlp_residual_scale = ResidualScale::none;

  Activation activation = Activation::relu;
  bool gated = false;  ///< GLU
  bool mlp_bias = false;
  bool mlp_norm = false;  ///< FFN norm of NormFormer

  bool first_value = false;  ///< layer 0 has a value matrix, reparameterised around the identity

  /// The configuration of one layer of a stack.
  constexpr BlockConfig at(int layer) const {
    BlockConfig config = *this;
    config.first_value = false;
    if (first_value && layer == 0) {
      config.value = Projection::reparameterised;
      config.base_gain = config.delta_gain = trainable(1);
    }
    return config;
  }

  /// The first rule that this configuration breaks; an empty name if there is none.
  constexpr Tag broken_rule() const {
    const bool parallel = branches == Branches::parallel;
    if (parallel && attention_skip.kind != Gain::Kind::zero) return "parallel skip";
    if (parallel && norm_position == NormPosition::after) return "parallel post-norm";
    if (attention_gain.kind == Gain::Kind::zero || mlp_gain.kind == Gain::Kind::zero) return "empty branch";
    if (value_projection_bias && (value != Projection::dense || projection != Projection::dense)) {
      return "bias of identity";
    }
    const bool later = norm == Norm::rms_norm_inside || norm_position == NormPosition::after ||
                       matrix == AttentionMatrix::skip_init || projection == Projection::reparameterised ||
                       query_key_value_norm || head_scale != HeadScale::none || attention_norm ||
                       attention_residual_scale != ResidualScale::none || mlp_residual_scale != ResidualScale::none ||
                       activation != Activation::relu || gated || mlp_norm;
    if (later) return "later version";
    return {};
  }
};

SIMPLX_RULE("parallel skip", left < 0,
            "parallel branches have one skip, mlp_skip (alpha_comb): set .attention_skip = no_branch")
SIMPLX_RULE("parallel post-norm", left < 0,
            "parallel branches share one norm in front of them: set .norm_position = NormPosition::before")
SIMPLX_RULE("empty branch", left < 0,
            "a block without its attention or MLP branch is no block of the papers: a gain of a branch cannot be zero")
SIMPLX_RULE("bias of identity", left < 0,
            "an identity or reparameterised value or projection has no bias: set .value_projection_bias = false")
SIMPLX_RULE("later version", left < 0,
            "this switch of BlockConfig is reserved: this version implements the switches of pre_ln and sas_p "
            "(branches, norm none/layer_norm/rms_norm, matrix softmax/shaped, identity or dense projections, gains, "
            "biases, first_value); write the block as its equation instead")

/// Row 1: Pre-LN, Eq. (1).
inline constexpr BlockConfig pre_ln{};

/// Row 15: SAS-P, Fig. 11.
inline constexpr BlockConfig sas_p{
    .branches = Branches::parallel,
    .matrix = AttentionMatrix::shaped,
    .value = Projection::identity,
    .projection = Projection::identity,
    .attention_skip = no_branch,
    .attention_gain = trainable(1),
    .mlp_skip = no_branch,
    .mlp_gain = trainable(0.1),
    .first_value = true,
};

/// Calls f(name, config) for every token; names are those of the command line and of checkpoints.
template <class F>
constexpr void each_block(F f) {
  f("pre_ln", pre_ln);
  f("sas_p", sas_p);
}

}  // namespace simplx
