// SPDX-License-Identifier: MIT
#include <simplx/blocks/post_ln.hpp>

#include "three_layers.hpp"

#include <simplx/blocks/pre_ln.hpp>

using namespace simplx;

namespace {
inline constexpr test::ThreeLayers<PostLn> equation{{2, 24}};
inline constexpr test::ThreeLayers<PreLnBiased> norms_in_front{{2, 24}};
static_assert(same_graph<equation, test::token<post_ln>>());
static_assert(same_graph<norms_in_front, test::token<pre_ln_biased>>());
static_assert(!same_graph<equation, norms_in_front>());
// 4 d^2 + 2 d F for matrices, 4 d + F + d for their biases, 4 d for two norms.
static_assert(parameters<equation> == 3 * (4 * 256 + 2 * 16 * 24 + 5 * 16 + 24 + 4 * 16));
static_assert(parameters<norms_in_front> == parameters<equation>);
}  // namespace

TEST_SUITE_BEGIN("blocks/post_ln");

TEST_CASE("against differences") { test::check_block<equation>({.step = 1e-3}); }

TEST_CASE("without its branches the block is a norm of a norm; the stack ends with one") {
  Evaluation<equation> run(Rows{.tokens = 6}, 1, {2, 4});
  test::fill_inputs(run);
  for (const char* layer : {"blocks.0", "blocks.1", "blocks.2"}) {
    std::ranges::fill(run.parameter(std::string(layer) + ".attention.projection.weight"), 0.0);
    std::ranges::fill(run.parameter(std::string(layer) + ".mlp.down.weight"), 0.0);
  }
  run.parameter("blocks.2.norm2.bias")[3] = 7;
  run.forward();
  for (std::size_t row = 0; row < 6; ++row) {
    double sum = 0, squares = 0;
    for (std::size_t c = 0; c < 16; ++c) {
      const double y = run.output()[row * 16 + c] - (c == 3 ? 7 : 0);
      sum += y, squares += y * y;
    }
    CHECK(std::abs(sum) < 1e-13);
    CHECK(squares == doctest::Approx(16).epsilon(1e-4));
  }
}

TEST_SUITE_END();
