// SPDX-License-Identifier: MIT
#include <simplx/blocks/v_skip_init.hpp>

#include "three_layers.hpp"

using namespace simplx;

namespace {
inline constexpr test::ThreeLayers<VSkipInit<AttentionMatrix::skip_init>> equation{{2, {24}}};
inline constexpr test::ThreeLayers<VSkipInit<AttentionMatrix::shaped>> shaped{{2, {24}}};
static_assert(same_graph<equation, test::token<v_skip_init>>());
static_assert(same_graph<shaped, test::token<v_skip_init_shaped>>());
static_assert(parameters<equation> == parameters<test::token<pre_ln>> + 3 * (2 * 2 + 3));
static_assert(parameters<shaped> == parameters<test::token<pre_ln>> + 3 * (3 * 2 + 3));
}  // namespace

TEST_SUITE_BEGIN("blocks/v_skip_init");

TEST_CASE(
    "initial values: alpha one and beta zero in Eq. (4), all one in Eq. (5); beta_FF 0.1; orthogonal, no queries") {
  Evaluation<equation> run(Rows{.tokens = 4});
  Evaluation<test::token<v_skip_init>> configured(Rows{.tokens = 4});
  CHECK(std::ranges::equal(run.parameters(), configured.parameters()));
  CHECK(std::ranges::count(run.parameter("blocks.1.attention.alpha"), 1.0) == 2);
  CHECK(std::ranges::count(run.parameter("blocks.1.attention.beta"), 0.0) == 2);
  CHECK(std::ranges::count(run.parameter("blocks.1.attention.query.weight"), 0.0) == 16 * 16);
  CHECK(run.parameter("blocks.1.mlp_gain")[0] == 0.1);
  CHECK(run.parameter("blocks.1.mlp_skip")[0] == 1);
  for (const char* name : {"blocks.2.attention.value.weight", "blocks.2.attention.projection.weight"}) {
    const auto w = run.parameter(name);
    double along = 0, squares = 0;  // of the first two rows
    for (std::size_t i = 0; i < 16; ++i) along += w[i] * w[16 + i], squares += w[i] * w[i];
    CHECK(std::abs(along) < 1e-14);
    CHECK(squares == doctest::Approx(1).epsilon(1e-14));
  }
  Evaluation<shaped> centred(Rows{.tokens = 4});
  CHECK(std::ranges::count(centred.parameter("blocks.1.attention.beta"), 1.0) == 2);
  CHECK(std::ranges::count(centred.parameter("blocks.1.attention.gamma"), 1.0) == 2);
}

TEST_SUITE_END();
