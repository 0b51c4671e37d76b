// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/blocks/tokens.hpp
/// The blocks of "Simplifying Transformer Blocks" (He & Hofmann 2024) as tokens, under their names everywhere:
/// command lines, checkpoints, reports.
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

/// The same with trained gains (Fig. 4).
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

struct NamedBlock {
  const char* name;
  BlockConfig config;
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
};

/// Calls f(name, config) for every token.
template <class F>
constexpr void each_block(F f) {
  for (const NamedBlock& block : all_blocks) f(block.name, block.config);
}

}  // namespace simplx
