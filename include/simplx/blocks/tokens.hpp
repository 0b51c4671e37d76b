// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/blocks/tokens.hpp
/// The blocks of "Simplifying Transformer Blocks" (He & Hofmann 2024), in decoders and in encoders, and of "NormFormer"
/// (Shleifer et al. 2021) as tokens, under their names everywhere: command lines, checkpoints, reports.
///
/// Gains are those of Eq. (1): attention_skip alpha_SA, attention_gain beta_SA, mlp_skip alpha_FF, mlp_gain beta_FF.
/// Where paper and published code differ the code is followed: alpha_FF is trained, and models "without norms"
/// keep a LayerNorm in front of their first block.

#include <simplx/blocks/config.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {
/// A token that differs from another: with(sas, [](BlockConfig& c) { ... }).
template <class Change>
constexpr BlockConfig with(BlockConfig config, Change change) {
  change(config);
  return config;
}
}  // namespace detail

/// Pre-LN: Eq. (1) with all gains one.
inline constexpr BlockConfig pre_ln{};

/// The parallel block, Eq. (7), with a skip of alpha_comb = 1.
inline constexpr BlockConfig parallel{.branches = Branches::parallel, .attention_skip = no_skip};

/// Value-SkipInit, Eq. (4): no attention skip, V and P orthogonal at first.
inline constexpr BlockConfig v_skip_init{
    .matrix = AttentionMatrix::skip_init,
    .value = dense(orthogonal),
    .projection = dense(orthogonal),
    .attention_skip = no_skip,
    .attention_gain = trainable(1),
    .mlp_skip = trainable(1),
    .mlp_gain = trainable(0.1),
};

/// The same with shaped attention, Eq. (5): "V-SkipInit" as the paper's figures show it (Fig. 2).
inline constexpr BlockConfig v_skip_init_shaped =
    detail::with(v_skip_init, [](BlockConfig& c) { c.matrix = AttentionMatrix::shaped; });

/// V and P reparameterised, Eq. (6), with fixed gains (Fig. 3).
inline constexpr BlockConfig shaped_reparam = detail::with(v_skip_init_shaped, [](BlockConfig& c) {
  c.value = c.projection = reparameterised(orthogonal, fixed_at(1), fixed_at(0.2));
});

/// The same with trained gains (Fig. 21; with the identity as base Fig. 4).
inline constexpr BlockConfig shaped_reparam_trainable = detail::with(v_skip_init_shaped, [](BlockConfig& c) {
  c.value = c.projection = reparameterised(orthogonal, trainable(1), trainable(0.2));
});

/// Pre-LN with V and P reparameterised around the identity (Fig. 22).
inline constexpr BlockConfig pre_ln_reparam_trainable = detail::with(pre_ln, [](BlockConfig& c) {
  c.value = c.projection = reparameterised(identity, trainable(1), trainable(0.2));
});

/// Pre-LN without V and P (Fig. 23).
inline constexpr BlockConfig pre_ln_identity{.value = no_projection, .projection = no_projection};

/// SAS (Fig. 10): shaped attention without skip, projection, and values, but for the first layer's.
inline constexpr BlockConfig sas{
    .matrix = AttentionMatrix::shaped,
    .value = no_projection,
    .projection = no_projection,
    .attention_skip = no_skip,
    .attention_gain = trainable(1),
    .mlp_skip = trainable(1),
    .mlp_gain = trainable(0.1),
    .first_value = true,
};

/// SAS without the first layer's value matrix (Fig. 24).
inline constexpr BlockConfig sas_identity_first_value =
    detail::with(sas, [](BlockConfig& c) { c.first_value = false; });

/// SAS without the MLP skip, with leaky ReLU (Fig. 25).
inline constexpr BlockConfig sas_no_mlp_skip = detail::with(sas, [](BlockConfig& c) {
  c.mlp_skip = no_skip;
  c.activation = Activation::leaky_relu;
});

/// SAS-P (Fig. 11): the branches of SAS in parallel, without any skip.
inline constexpr BlockConfig sas_p = detail::with(sas, [](BlockConfig& c) {
  c.branches = Branches::parallel;
  c.mlp_skip = no_skip;
});

/// SAS-P and SAS without norms, as the authors ran them: block 0 keeps a LayerNorm of its input.
inline constexpr BlockConfig sas_p_no_norm = detail::with(sas_p, [](BlockConfig& c) {
  c.norm = Norm::none;
  c.norm_epsilon = 1e-5;
  c.first_norm = true;
});
inline constexpr BlockConfig sas_no_norm = detail::with(sas, [](BlockConfig& c) {
  c.norm = Norm::none;
  c.norm_epsilon = 1e-5;
  c.first_norm = true;
});

/// The same without a norm in any block.
inline constexpr BlockConfig sas_p_norm_free = detail::with(sas_p, [](BlockConfig& c) { c.norm = Norm::none; });
inline constexpr BlockConfig sas_norm_free = detail::with(sas, [](BlockConfig& c) { c.norm = Norm::none; });

/// SAS and SAS-P with the matrix of Value-SkipInit, Eq. (4) (Fig. 13).
inline constexpr BlockConfig sas_skip_init =
    detail::with(sas, [](BlockConfig& c) { c.matrix = AttentionMatrix::skip_init; });
inline constexpr BlockConfig sas_p_skip_init =
    detail::with(sas_p, [](BlockConfig& c) { c.matrix = AttentionMatrix::skip_init; });

/// SAS-P with V and P reparameterised around the identity in every layer (Fig. 16).
inline constexpr BlockConfig sas_p_reparam_trainable = detail::with(sas_p, [](BlockConfig& c) {
  c.value = c.projection = reparameterised(identity, trainable(1), trainable(0.2));
  c.first_value = false;
});

/// With ALiBi in place of positions (App. C, Fig. 28).
inline constexpr BlockConfig sas_alibi = detail::with(sas, [](BlockConfig& c) { c.alibi = true; });
inline constexpr BlockConfig sas_p_alibi = detail::with(sas_p, [](BlockConfig& c) { c.alibi = true; });
inline constexpr BlockConfig pre_ln_alibi = detail::with(pre_ln, [](BlockConfig& c) { c.alibi = true; });

// -------------------------------------------------------------------------------------------------------- NormFormer

/// Its baseline: Pre-LN with LayerNorm, GELU and a bias on every matrix.
inline constexpr BlockConfig pre_ln_biased{
    .norm = Norm::layer_norm,
    .norm_epsilon = 1e-5,
    .query_key_bias = true,
    .value_projection_bias = true,
    .activation = Activation::gelu,
    .mlp_bias = true,
};

/// The same with norms after the sums (Fig. 3): "Attention Is All You Need".
inline constexpr BlockConfig post_ln =
    detail::with(pre_ln_biased, [](BlockConfig& c) { c.norm_position = NormPosition::after; });

/// NormFormer (Sec. 2.1): HeadScale, a norm of the attention's result, and one of the activated.
inline constexpr BlockConfig norm_former = detail::with(pre_ln_biased, [](BlockConfig& c) {
  c.head_scale = HeadScale::before_projection;
  c.attention_norm = c.mlp_norm = true;
});

/// With HeadScale after the projection, as the published code has it.
inline constexpr BlockConfig norm_former_after_projection =
    detail::with(norm_former, [](BlockConfig& c) { c.head_scale = HeadScale::after_projection; });

/// With ResScale on the skip around the MLP (Sec. 2.2); with one number there; with vectors on both skips (Sec. 4.2).
inline constexpr BlockConfig norm_former_resscale =
    detail::with(norm_former, [](BlockConfig& c) { c.mlp_residual_scale = ResidualScale::vector; });
inline constexpr BlockConfig norm_former_resscale_scalar =
    detail::with(norm_former, [](BlockConfig& c) { c.mlp_residual_scale = ResidualScale::number; });
inline constexpr BlockConfig norm_former_resscale_both =
    detail::with(norm_former_resscale, [](BlockConfig& c) { c.attention_residual_scale = ResidualScale::vector; });

/// With ResScale and without one of the three additions, or with norms of queries, keys and values (Table 4).
inline constexpr BlockConfig norm_former_resscale_no_post_attention_norm =
    detail::with(norm_former_resscale, [](BlockConfig& c) { c.attention_norm = false; });
inline constexpr BlockConfig norm_former_resscale_no_ffn_norm =
    detail::with(norm_former_resscale, [](BlockConfig& c) { c.mlp_norm = false; });
inline constexpr BlockConfig norm_former_resscale_no_head_scale =
    detail::with(norm_former_resscale, [](BlockConfig& c) { c.head_scale = HeadScale::none; });
inline constexpr BlockConfig norm_former_resscale_qkv_norm =
    detail::with(norm_former_resscale, [](BlockConfig& c) { c.query_key_value_norm = true; });

/// ResScale alone (Sec. 4.2).
inline constexpr BlockConfig resscale_only =
    detail::with(pre_ln_biased, [](BlockConfig& c) { c.mlp_residual_scale = ResidualScale::vector; });

/// With squared ReLU, and its baseline (Table 2).
inline constexpr BlockConfig norm_former_relu2 =
    detail::with(norm_former, [](BlockConfig& c) { c.activation = Activation::relu_squared; });
inline constexpr BlockConfig pre_ln_biased_relu2 =
    detail::with(pre_ln_biased, [](BlockConfig& c) { c.activation = Activation::relu_squared; });

// -------------------------------------------------------------------------------------------- crammed BERT, App. D.2

namespace detail {
/// A block of the decoders as it is in the encoder: LayerNorm, and a gated MLP with GELU.
constexpr BlockConfig crammed(BlockConfig config) {
  if (config.norm != Norm::none) config.norm = Norm::layer_norm;
  config.norm_epsilon = 1e-12;
  config.activation = Activation::gelu;
  config.gated = true;
  if (config.mlp_gain.kind == Gain::Kind::trainable) config.mlp_gain = trainable(0.05);
  return config;
}
}  // namespace detail

inline constexpr BlockConfig bert_pre_ln = detail::crammed(pre_ln);
inline constexpr BlockConfig bert_parallel = detail::crammed(parallel);
inline constexpr BlockConfig bert_v_skip_init_shaped = detail::crammed(v_skip_init_shaped);
inline constexpr BlockConfig bert_sas = detail::crammed(sas);
inline constexpr BlockConfig bert_sas_p = detail::crammed(sas_p);
inline constexpr BlockConfig bert_sas_p_no_norm = detail::crammed(sas_p_no_norm);

// ------------------------------------------------------------------------------------------------------------- names

/// A block and the name that programs know it by.
struct NamedBlock {
  const char* name;
  BlockConfig config;
  bool encoder = false;  ///< it belongs into an Encoder, not into a Decoder
};

/// Every token under its name.
inline constexpr NamedBlock all_blocks[] = {
    {"pre_ln", pre_ln},
    {"parallel", parallel},
    {"v_skip_init", v_skip_init},
    {"v_skip_init_shaped", v_skip_init_shaped},
    {"shaped_reparam", shaped_reparam},
    {"shaped_reparam_trainable", shaped_reparam_trainable},
    {"pre_ln_reparam_trainable", pre_ln_reparam_trainable},
    {"pre_ln_identity", pre_ln_identity},
    {"sas", sas},
    {"sas_identity_first_value", sas_identity_first_value},
    {"sas_no_mlp_skip", sas_no_mlp_skip},
    {"sas_p", sas_p},
    {"sas_p_no_norm", sas_p_no_norm},
    {"sas_no_norm", sas_no_norm},
    {"sas_p_norm_free", sas_p_norm_free},
    {"sas_norm_free", sas_norm_free},
    {"sas_skip_init", sas_skip_init},
    {"sas_p_skip_init", sas_p_skip_init},
    {"sas_p_reparam_trainable", sas_p_reparam_trainable},
    {"sas_alibi", sas_alibi},
    {"sas_p_alibi", sas_p_alibi},
    {"pre_ln_alibi", pre_ln_alibi},

    {"pre_ln_biased", pre_ln_biased},
    {"post_ln", post_ln},
    {"norm_former", norm_former},
    {"norm_former_after_projection", norm_former_after_projection},
    {"norm_former_resscale", norm_former_resscale},
    {"norm_former_resscale_scalar", norm_former_resscale_scalar},
    {"norm_former_resscale_both", norm_former_resscale_both},
    {"norm_former_resscale_no_post_attention_norm", norm_former_resscale_no_post_attention_norm},
    {"norm_former_resscale_no_ffn_norm", norm_former_resscale_no_ffn_norm},
    {"norm_former_resscale_no_head_scale", norm_former_resscale_no_head_scale},
    {"norm_former_resscale_qkv_norm", norm_former_resscale_qkv_norm},
    {"resscale_only", resscale_only},
    {"norm_former_relu2", norm_former_relu2},
    {"pre_ln_biased_relu2", pre_ln_biased_relu2},

    {"bert_pre_ln", bert_pre_ln, true},
    {"bert_parallel", bert_parallel, true},
    {"bert_v_skip_init_shaped", bert_v_skip_init_shaped, true},
    {"bert_sas", bert_sas, true},
    {"bert_sas_p", bert_sas_p, true},
    {"bert_sas_p_no_norm", bert_sas_p_no_norm, true},
};

}  // namespace simplx
