// SPDX-License-Identifier: MIT
#include <simplx/blocks/tokens.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace simplx;

TEST_CASE("blocks/tokens: all names of both papers, each with a token that breaks no rule") {
  std::vector<std::string> names;
  for (const NamedBlock& block : all_blocks) {
    names.push_back(block.name);
    CHECK(block.config.broken_rule().empty());
  }
  CHECK(names == std::vector<std::string>{"pre_ln",
                                          "parallel",
                                          "v_skip_init",
                                          "v_skip_init_shaped",
                                          "shaped_reparam",
                                          "shaped_reparam_trainable",
                                          "pre_ln_reparam_trainable",
                                          "pre_ln_identity",
                                          "sas",
                                          "sas_identity_first_value",
                                          "sas_no_mlp_skip",
                                          "sas_p",
                                          "sas_p_no_norm",
                                          "sas_no_norm",
                                          "sas_p_norm_free",
                                          "sas_norm_free",
                                          "sas_skip_init",
                                          "sas_p_skip_init",
                                          "sas_p_reparam_trainable",
                                          "sas_alibi",
                                          "sas_p_alibi",
                                          "pre_ln_alibi",
                                          "pre_ln_biased",
                                          "post_ln",
                                          "norm_former",
                                          "norm_former_after_projection",
                                          "norm_former_resscale",
                                          "norm_former_resscale_scalar",
                                          "norm_former_resscale_both",
                                          "norm_former_resscale_no_post_attention_norm",
                                          "norm_former_resscale_no_ffn_norm",
                                          "norm_former_resscale_no_head_scale",
                                          "norm_former_resscale_qkv_norm",
                                          "resscale_only",
                                          "norm_former_relu2",
                                          "pre_ln_biased_relu2",
                                          "bert_pre_ln",
                                          "bert_parallel",
                                          "bert_v_skip_init_shaped",
                                          "bert_sas",
                                          "bert_sas_p",
                                          "bert_sas_p_no_norm"});
}

TEST_CASE("blocks/tokens: no two are the same block, and encoders are those that say so") {
  for (const NamedBlock& block : all_blocks) {
    CAPTURE(block.name);
    CHECK(block.encoder == std::string(block.name).starts_with("bert_"));
    CHECK(std::ranges::count(all_blocks, block.config, &NamedBlock::config) == 1);
  }
}
