// SPDX-License-Identifier: MIT
#include <simplx/blocks/config.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace simplx;

static_assert(pre_ln.broken_rule().empty() && sas_p.broken_rule().empty());
static_assert(sas_p.at(0).value == Projection::reparameterised && sas_p.at(1).value == Projection::identity);
static_assert(BlockConfig{.branches = Branches::parallel}.broken_rule() == Tag("parallel skip"));
static_assert(BlockConfig{.branches = Branches::parallel, .norm_position = NormPosition::after, .attention_skip = no_branch}
                  .broken_rule() == Tag("parallel post-norm"));
static_assert(BlockConfig{.mlp_gain = no_branch}.broken_rule() == Tag("empty branch"));
static_assert(BlockConfig{.value = Projection::identity, .value_projection_bias = true}.broken_rule() == Tag("bias of identity"));
static_assert(BlockConfig{.gated = true}.broken_rule() == Tag("later version"));

TEST_CASE("blocks/config: every token has a name, and none breaks a rule") {
  std::vector<std::string> names;
  each_block([&](const char* name, const BlockConfig& config) {
    names.push_back(name);
    CHECK(config.broken_rule().empty());
  });
  CHECK(names == std::vector<std::string>{"pre_ln", "sas_p"});
}
