// SPDX-License-Identifier: MIT
#include <simplx/blocks/crammed_bert.hpp>

#include "three_layers.hpp"

using namespace simplx;

namespace {
template <BlockConfig config>
inline constexpr test::ThreeLayers<ConfiguredBlock> token{{config, 2, 24, Mask::full}};

inline constexpr test::ThreeLayers<BertPreLn> pre{{{.heads = 2, .mask = Mask::full}, {24}}};
inline constexpr test::ThreeLayers<BertParallel> side_by_side{{{.heads = 2, .mask = Mask::full}, {24}}};
inline constexpr test::ThreeLayers<BertVSkipInit> rival{{2, {24}, Mask::full, 0.05}};
inline constexpr test::ThreeLayers<BertSas> sequential{{{.heads = 2, .mask = Mask::full}, {24}, {}, {}, 0.05}};
inline constexpr test::ThreeLayers<BertSasP> simplified{{{.heads = 2, .mask = Mask::full}, {24}, {}, 0.05}};
inline constexpr test::ThreeLayers<BertSasPNoNorm> no_norm{{{.heads = 2, .mask = Mask::full}, {24}, {}, 0.05}};
static_assert(same_graph<pre, token<bert_pre_ln>>());
static_assert(same_graph<side_by_side, token<bert_parallel>>());
static_assert(same_graph<rival, token<bert_v_skip_init_shaped>>());
static_assert(same_graph<sequential, token<bert_sas>>());
static_assert(same_graph<simplified, token<bert_sas_p>>());
static_assert(same_graph<no_norm, token<bert_sas_p_no_norm>>());
static_assert(!same_graph<pre, test::token<bert_pre_ln>>());  // the mask belongs to the model

static_assert(parameter_shape<pre>("blocks.0.mlp.up.weight") == fixed_shape(16, 24));
static_assert(parameter_shape<pre>("blocks.0.mlp.down.weight") == fixed_shape(12, 16));
static_assert(parameters<pre> == 3 * (4 * 256 + 16 * 24 + 12 * 16 + 4 * 16));
static_assert(parameters<side_by_side> == parameters<pre> - 3 * 2 * 16);
static_assert(parameters<sequential> == parameters<pre> - 3 * 2 * 256 + 3 * (3 * 2 + 3) + 256 + 2);
static_assert(parameters<simplified> == parameters<sequential> - 3 * (2 * 16 + 1));
static_assert(parameters<no_norm> == parameters<simplified> - 2 * 2 * 16);
static_assert(has_parameter<no_norm>("blocks.0.norm1.bias") && !has_parameter<no_norm>("blocks.1.norm1.bias"));

/// Numbers that the graph does not hold: initial values, and epsilon.
template <auto const& a, auto const& b>
void begin_alike() {
  Evaluation<a> equation(Rows{.tokens = 2});
  Evaluation<b> configured(Rows{.tokens = 2});
  CHECK(std::ranges::equal(equation.parameters(), configured.parameters()));
  for (const TensorInfo& tensor : equation.tensors().constants) {
    CAPTURE(tensor.name);
    CHECK(equation.constant(tensor.name)[0] == 1e-12);
    CHECK(configured.constant(tensor.name)[0] == 1e-12);
  }
}
}  // namespace

TEST_SUITE_BEGIN("blocks/crammed_bert");

TEST_CASE("equation and token begin alike: epsilon 1e-12, beta_FF 0.05") {
  begin_alike<pre, token<bert_pre_ln>>();
  begin_alike<rival, token<bert_v_skip_init_shaped>>();
  begin_alike<sequential, token<bert_sas>>();
  begin_alike<no_norm, token<bert_sas_p_no_norm>>();
  Evaluation<simplified> run(Rows{.tokens = 2});
  CHECK(run.parameter("blocks.1.mlp_gain")[0] == 0.05);
}

TEST_CASE("against differences") {
  test::check_block<pre>({.step = 1e-3});
  test::check_block<sequential>({.step = 1e-3});
}

TEST_SUITE_END();
