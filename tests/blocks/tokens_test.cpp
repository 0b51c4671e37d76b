// SPDX-License-Identifier: MIT
#include <simplx/blocks/tokens.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace simplx;

TEST_CASE("blocks/tokens: all names of the first paper's family, each with a token that breaks no rule") {
  std::vector<std::string> names;
  each_block([&](const char* name, const BlockConfig& config) {
    names.push_back(name);
    CHECK(config.broken_rule().empty());
  });
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
                                          "pre_ln_alibi"});
}
