// SPDX-License-Identifier: MIT
#include <simplx/blocks/parallel.hpp>

#include "three_layers.hpp"

using namespace simplx;

namespace {
inline constexpr test::ThreeLayers<Parallel> equation{{{.heads = 2}, {24}}};
static_assert(same_graph<equation, test::token<parallel>>());
static_assert(parameters<equation> == parameters<test::token<pre_ln>> - 3 * 16);  // one norm less in each block
}  // namespace

TEST_CASE("blocks/parallel: both branches see the same norm, so that each can be taken away from the sum") {
  Evaluation<equation> both(Rows{.tokens = 6}, 1), attention(Rows{.tokens = 6}, 1), mlp(Rows{.tokens = 6}, 1);
  for (auto* run : {&both, &attention, &mlp}) {
    test::fill_inputs(*run);
    test::move_parameters(*run);
    for (const char* layer : {"blocks.1", "blocks.2"}) {  // one block is left
      std::ranges::fill(run->parameter(std::string(layer) + ".attention.projection.weight"), 0.0);
      std::ranges::fill(run->parameter(std::string(layer) + ".mlp.down.weight"), 0.0);
    }
  }
  std::ranges::fill(attention.parameter("blocks.0.mlp.down.weight"), 0.0);
  std::ranges::fill(mlp.parameter("blocks.0.attention.projection.weight"), 0.0);
  for (auto* run : {&both, &attention, &mlp}) run->forward();
  double worst = 0;
  for (std::size_t i = 0; i < both.output().size(); ++i) {
    worst = std::max(worst, std::abs(both.output()[i] + both.input("x")[i] - attention.output()[i] - mlp.output()[i]));
  }
  CHECK(worst < 1e-13);
}
