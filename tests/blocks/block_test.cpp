// SPDX-License-Identifier: MIT
#include <simplx/blocks/block.hpp>

#include "support.hpp"

#include <simplx/blocks/pre_ln.hpp>
#include <simplx/blocks/sas_p.hpp>

using namespace simplx;

namespace {

/// Three layers of a block, so that the first and the others are compared.
template <class B>
struct ThreeLayers {
  B block;
  Index width = 32;
  constexpr Expr operator()() const { return stack("blocks", 3, block, variable("x", rows_of(Axis::tokens, width))); }
};

inline constexpr ThreeLayers<PreLn> pre_ln_equation{{{4}, {64}}};
inline constexpr ThreeLayers<Block<pre_ln>> pre_ln_token{{4, 64}};
inline constexpr ThreeLayers<SasP> sas_p_equation{{{4}, {64}}};
inline constexpr ThreeLayers<Block<sas_p>> sas_p_token{{4, 64}};
inline constexpr ThreeLayers<ConfiguredBlock> sas_p_value{{sas_p, 4, 64}};

// A token and its equation are one graph.
static_assert(same_graph<pre_ln_equation, pre_ln_token>());
static_assert(same_graph<sas_p_equation, sas_p_token>() && same_graph<sas_p_equation, sas_p_value>());
static_assert(!same_graph<pre_ln_equation, sas_p_equation>());

constexpr BlockConfig without_first_value = [] {
  BlockConfig config = sas_p;
  config.first_value = false;
  return config;
}();
inline constexpr ThreeLayers<Block<without_first_value>> sas_p_identity_value{{4, 64}};
static_assert(!same_graph<sas_p_token, sas_p_identity_value>());
static_assert(parameters<sas_p_token> - parameters<sas_p_identity_value> == 32 * 32 + 2);

// Switches beyond the two tokens: skips and gains that are fixed, biases, other norms.
constexpr BlockConfig everything{
    .branches = Branches::parallel, .norm = Norm::layer_norm, .norm_epsilon = 1e-5, .query_key_bias = true,
    .value_projection_bias = true, .attention_skip = no_branch, .attention_gain = fixed_at(0.5),
    .mlp_skip = trainable(0.7), .mlp_gain = trainable(0.1), .mlp_bias = true};
inline constexpr ThreeLayers<Block<everything>> switches{{2, 24}, 16};

}  // namespace

TEST_SUITE_BEGIN("blocks/block");

TEST_CASE("initial values are no part of a graph, switches are") {
  static constexpr BlockConfig louder = [] {
    BlockConfig config = sas_p;
    config.mlp_gain = trainable(1);
    return config;
  }();
  static constexpr ThreeLayers<Block<louder>> loud{{4, 64}};
  static_assert(same_graph<sas_p_token, loud>());
}

TEST_CASE("both blocks hold against differences, on both paths") {
  test::check_model<pre_ln_equation>({.step = 1e-3});
  test::check_model<sas_p_equation>({.step = 1e-3});
}

TEST_CASE("switches of the configuration that the two tokens leave alone work too") {
  test::check_model<switches>({.step = 1e-3});
  CHECK(has_parameter<switches>("blocks.2.mlp_skip"));
  CHECK(!has_parameter<switches>("blocks.2.attention_gain"));  // fixed, not trained
  CHECK(has_parameter<switches>("blocks.2.attention.value.bias"));
}

TEST_SUITE_END();
