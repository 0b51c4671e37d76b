// SPDX-License-Identifier: MIT
#include <simplx/models/code_parrot.hpp>
#include <simplx/core/parameters.hpp>
#include <simplx/models/published.hpp>

#include <doctest/doctest.h>

using namespace simplx;
using namespace simplx::presets;

namespace {

// What is trained: embedding, table of positions, per layer 4 d^2 + 2 d F + 2 d of biases + 2 d of norms, final norm.
static_assert(parameters<codeparrot_pre_ln> ==
              (50'000 + 1024) * 768 + 18 * (4 * 768 * 768 + 2 * 768 * 3072 + 4 * 768) + 768);
static_assert(parameters<codeparrot_pre_ln> == 166'644'480 && parameters<codeparrot_parallel> == 166'630'656);
static_assert(parameters<codeparrot_sas> == 146'001'344 && parameters<codeparrot_sas_p> == 145'987'502);
// 18 norms fewer, and a LayerNorm with its bias in front of the first block.
static_assert(parameters<codeparrot_sas_p_no_norm> == parameters<codeparrot_sas_p> - 18 * 768 + 2 * 768);

// The LayerNorm of the code after the blocks has a bias.
inline constexpr Decoder with_last_layer_norm = [] {
  Decoder model = codeparrot_sas_p;
  model.final_norm = Norm::layer_norm;
  return model;
}();
static_assert(parameters<with_last_layer_norm> == parameters<codeparrot_sas_p> + 768);

// As the released script counts: 167M and 146M.
static_assert(parameters_published<codeparrot_pre_ln>() == 166'742'736);
static_assert(parameters_published<codeparrot_sas>() == 146'072'018);
static_assert(!parameters_published<codeparrot_parallel>() && !parameters_published<codeparrot_sas_p>());

static_assert(codeparrot_sas_p_no_norm.norm_after_blocks().epsilon == 1e-5);
static_assert(code_parrot(sas, 18, 1536).block.mlp_gain == trainable(0.2));  // App. D.1
static_assert(code_parrot(sas, 72, 1536).block.mlp_gain == trainable(0.1) && codeparrot_sas.block == [] {
  BlockConfig block = sas;
  block.query_key_bias = true, block.norm_epsilon = 1e-5;
  return block;
}());

static_assert(parameter_shape<codeparrot_sas>("position.weight") == fixed_shape(1024, 768));

constexpr double millions(const Decoder& model) { return static_cast<double>(released_parameters(model)) * 1e-6; }

}  // namespace

TEST_CASE("models/code_parrot: deep and narrow models count 379.4M, 295.0M, 124.2M and 103.6M") {
  CHECK(millions(code_parrot(pre_ln, 72, 1536)) == doctest::Approx(379.4).epsilon(0.05 / 379.4));
  CHECK(millions(code_parrot(sas, 72, 1536)) == doctest::Approx(295.0).epsilon(0.05 / 295));
  CHECK(millions(code_parrot(pre_ln, 18, 1536)) == doctest::Approx(124.2).epsilon(0.05 / 124.2));
  CHECK(millions(code_parrot(sas, 18, 1536)) == doctest::Approx(103.6).epsilon(0.05 / 103.6));
}

TEST_CASE("models/code_parrot: FLOPs of a token are 2 (4 d^2 + 2 d F) + 4 T d a layer and 2 V d; SAS lacks 4 d^2") {
  const double layer = 2 * (4.0 * 768 * 768 + 2 * 768 * 3072) + 4 * 128 * 768, head = 2.0 * 50'000 * 768;
  const double first_value = 2.0 * 768 * 768;
  CHECK(flops<codeparrot_pre_ln>(tokens{128}) == 128 * (18 * layer + head));
  CHECK(flops<codeparrot_sas>(tokens{128}) == 128 * (18 * (layer - 4.0 * 768 * 768) + head + first_value));
  CHECK(flops<codeparrot_sas_p>(tokens{128}) == flops<codeparrot_sas>(tokens{128}));
}
