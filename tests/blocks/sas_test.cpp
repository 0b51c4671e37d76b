// SPDX-License-Identifier: MIT
#include <simplx/blocks/sas.hpp>

#include "three_layers.hpp"

using namespace simplx;

namespace {
inline constexpr test::ThreeLayers<Sas> equation{{{.heads = 2}, {24}}};
inline constexpr test::ThreeLayers<Sas> with_alibi{{{.heads = 2, .alibi = true}, {24}}};
inline constexpr test::ThreeLayers<SasIdentityFirstValue> identity_first{{{.heads = 2}, {24}}};
inline constexpr test::ThreeLayers<SasSkipInit> skip_init{{{.heads = 2}, {24}}};
inline constexpr test::ThreeLayers<SasNoNorm> no_norm{{{.heads = 2}, {24}}};
inline constexpr test::ThreeLayers<SasNormFree> norm_free{{{.heads = 2}, {24}}};
inline constexpr test::ThreeLayers<SasNoMlpSkip> no_mlp_skip{{{.heads = 2}, {24}}};
static_assert(same_graph<equation, test::token<sas>>());
static_assert(same_graph<with_alibi, test::token<sas_alibi>>());
static_assert(same_graph<identity_first, test::token<sas_identity_first_value>>());
static_assert(same_graph<skip_init, test::token<sas_skip_init>>());
static_assert(same_graph<no_norm, test::token<sas_no_norm>>());
static_assert(same_graph<norm_free, test::token<sas_norm_free>>());
static_assert(same_graph<no_mlp_skip, test::token<sas_no_mlp_skip>>());

// 2d^2 + 2dF + 2d + 3H + 3 a block, and d^2 + 2 for the first value.
static_assert(parameters<equation> == 3 * (2 * 256 + 2 * 16 * 24 + 2 * 16 + 3 * 2 + 3) + 256 + 2);
static_assert(parameters<identity_first> == parameters<equation> - 256 - 2);
static_assert(parameters<skip_init> == parameters<equation> - 3 * 2);
static_assert(parameters<norm_free> == parameters<equation> - 3 * 2 * 16);
static_assert(parameters<no_norm> == parameters<norm_free> + 2 * 16);
static_assert(parameters<no_mlp_skip> == parameters<equation> - 3);
static_assert(has_parameter<no_norm>("blocks.0.norm1.bias") && !has_parameter<no_norm>("blocks.1.norm1.gain"));
static_assert(!has_parameter<no_norm>("blocks.0.norm2.gain"));
}  // namespace

TEST_SUITE_BEGIN("blocks/sas");

TEST_CASE("the slope of the leaky ReLU is a hyper-parameter; zero is ReLU") {
  Evaluation<no_mlp_skip> run(Rows{.tokens = 6}), relu(Rows{.tokens = 6});
  CHECK(run.constant("blocks.0.mlp.slope")[0] == 0.2);
  for (const char* layer : {"blocks.0", "blocks.1", "blocks.2"}) {
    relu.constant(std::string(layer) + ".mlp.slope")[0] = 0;
  }
  test::fill_inputs(run), test::fill_inputs(relu);
  test::move_parameters(run), test::move_parameters(relu);
  Evaluation<test::token<sas>> with_skip(Rows{.tokens = 6});
  test::fill_inputs(with_skip);
  for (const TensorInfo& tensor : relu.tensors().parameters) {
    std::ranges::copy(relu.parameter(tensor.name), with_skip.parameter(tensor.name).begin());
  }
  for (const char* layer : {"blocks.0", "blocks.1", "blocks.2"}) {
    with_skip.parameter(std::string(layer) + ".mlp_skip")[0] = 0;
  }
  run.forward(), relu.forward(), with_skip.forward();
  CHECK(test::largest_difference(relu.output(), with_skip.output()) < 1e-12);
  CHECK(test::largest_difference(run.output(), relu.output()) > 1e-2);
}

TEST_SUITE_END();
