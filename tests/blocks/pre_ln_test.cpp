// SPDX-License-Identifier: MIT
#include <simplx/blocks/pre_ln.hpp>

#include "three_layers.hpp"

using namespace simplx;

namespace {
inline constexpr test::ThreeLayers<PreLn> equation{{{.heads = 2}, {24}}};
inline constexpr test::ThreeLayers<PreLn> with_alibi{{{.heads = 2, .alibi = true}, {24}}};
inline constexpr test::ThreeLayers<PreLnIdentity> without_matrices{{{.heads = 2}, {24}}};
inline constexpr test::ThreeLayers<PreLnReparam> reparam{{2, {24}}};
static_assert(same_graph<equation, test::token<pre_ln>>());
static_assert(same_graph<with_alibi, test::token<pre_ln_alibi>>());
static_assert(same_graph<without_matrices, test::token<pre_ln_identity>>());
static_assert(same_graph<reparam, test::token<pre_ln_reparam_trainable>>());
static_assert(!same_graph<equation, with_alibi>() && !same_graph<equation, reparam>());

static_assert(parameters<equation> == 3 * (4 * 16 * 16 + 2 * 16 * 24 + 2 * 16));
static_assert(parameters<without_matrices> == 3 * (2 * 16 * 16 + 2 * 16 * 24 + 2 * 16));
static_assert(parameters<reparam> == parameters<equation> + 3 * 4);
}  // namespace

TEST_SUITE_BEGIN("blocks/pre_ln");

TEST_CASE("with projections of zero the block is the identity, bit for bit") {
  Evaluation<equation> run(Rows{.tokens = 6}, 1, {2, 4});
  test::fill_inputs(run);
  for (const char* layer : {"blocks.0", "blocks.1", "blocks.2"}) {
    std::ranges::fill(run.parameter(std::string(layer) + ".attention.projection.weight"), 0.0);
    std::ranges::fill(run.parameter(std::string(layer) + ".mlp.down.weight"), 0.0);
  }
  run.forward();
  CHECK(std::ranges::equal(run.output(), run.input("x")));
}

TEST_SUITE_END();
