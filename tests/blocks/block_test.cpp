// SPDX-License-Identifier: MIT
#include <simplx/blocks/block.hpp>

#include "three_layers.hpp"

#include <simplx/blocks/pre_ln.hpp>
#include <simplx/blocks/sas_p.hpp>

using namespace simplx;

namespace {

using test::ThreeLayers;

inline constexpr ThreeLayers<PreLn> pre_ln_equation{{{4}, {64}}, 32};
inline constexpr ThreeLayers<SasP> sas_p_equation{{{4}, {64}}, 32};
inline constexpr ThreeLayers<ConfiguredBlock> sas_p_token{{sas_p, 4, 64}, 32};

// A token and its equation are one graph.
static_assert(same_graph<sas_p_equation, sas_p_token>());
static_assert(!same_graph<pre_ln_equation, sas_p_equation>());

constexpr BlockConfig without_first_value = [] {
  BlockConfig config = sas_p;
  config.first_value = false;
  return config;
}();
inline constexpr ThreeLayers<ConfiguredBlock> sas_p_identity_value{{without_first_value, 4, 64}, 32};
static_assert(!same_graph<sas_p_token, sas_p_identity_value>());
static_assert(parameters<sas_p_token> - parameters<sas_p_identity_value> == 32 * 32 + 2);

// An MLP of no given width is four times as wide as x, in the equation, its token and the decoder.
inline constexpr ThreeLayers<SasP> wide_equation{{{4}, {}}, 32};
inline constexpr ThreeLayers<ConfiguredBlock> wide_token{{.config = sas_p, .heads = 4}, 32};
static_assert(same_graph<wide_equation, wide_token>());
static_assert(parameter_shape<wide_token>("blocks.1.mlp.up.weight") == fixed_shape(32, 128));

// beta fixed at 0 and alpha at 1 around the identity: nothing is left of a value matrix (blocks.md 6.6).
constexpr BlockConfig erased = [] {
  BlockConfig config = without_first_value;
  config.value = config.projection = reparameterised(identity, fixed_at(1), fixed_at(0));
  return config;
}();
inline constexpr ThreeLayers<ConfiguredBlock> sas_p_erased{{erased, 4, 64}, 32};
static_assert(same_graph<sas_p_identity_value, sas_p_erased>());

// V and P have gains and bases of their own.
constexpr BlockConfig different = [] {
  BlockConfig config = without_first_value;
  config.value = reparameterised(normal_by_rows, fixed_at(0.5), trainable(0.1));
  config.projection = reparameterised(identity, trainable(2), fixed_at(0.2));
  return config;
}();
inline constexpr ThreeLayers<ConfiguredBlock> separate{{different, 2, 24}};

// The other activations and norms, each by itself.
using Plain = MultiHeadAttention;
inline constexpr ThreeLayers<PreLnOf<Plain, RmsNorm, MlpOf<GeluTanh>>> by_tanh{{{2}, {24}}};
inline constexpr ThreeLayers<PreLnOf<Plain, RmsNorm, MlpOf<Gated<LeakyRelu>>>> leaky_gate{{{2}, {24}}};
inline constexpr ThreeLayers<PreLnOf<Plain, RmsNormInside, MlpOf<ReluSquared, RmsNormInside>>> inside{{{2}, {24}}};
static_assert(same_graph<by_tanh, test::token<BlockConfig{.activation = Activation::gelu_tanh}>>());
static_assert(
    same_graph<leaky_gate, test::token<BlockConfig{.activation = Activation::leaky_relu, .gated = true}>>());
static_assert(same_graph<inside, test::token<BlockConfig{.norm = Norm::rms_norm_inside,
                                                         .activation = Activation::relu_squared,
                                                         .mlp_norm = true}>>());

// Switches beyond the two tokens: skips and gains that are fixed, biases, other norms.
constexpr BlockConfig everything{.branches = Branches::parallel,
                                 .norm = Norm::layer_norm,
                                 .norm_epsilon = 1e-5,
                                 .alibi = true,
                                 .query_key_bias = true,
                                 .value_projection_bias = true,
                                 .attention_skip = no_skip,
                                 .attention_gain = fixed_at(0.5),
                                 .mlp_skip = fixed_at(0.7),
                                 .mlp_gain = trainable(0.1),
                                 .mlp_bias = true};
constexpr BlockConfig sequential{
    .norm = Norm::rms_norm_inside, .attention_skip = trainable(0.9), .attention_gain = trainable(0.8),
    .mlp_skip = trainable(0.7), .activation = Activation::leaky_relu, .slope = 0.1};
inline constexpr ThreeLayers<ConfiguredBlock> inner{{sequential, 2, 24}};
inline constexpr ThreeLayers<ConfiguredBlock> switches{{everything, 2, 24}};

}  // namespace

TEST_SUITE_BEGIN("blocks/block");

TEST_CASE("initial values are no part of a graph, switches are") {
  static constexpr BlockConfig louder = [] {
    BlockConfig config = sas_p;
    config.mlp_gain = trainable(0.3);
    return config;
  }();
  static constexpr ThreeLayers<ConfiguredBlock> loud{{louder, 4, 64}, 32};
  static_assert(same_graph<sas_p_token, loud>());
}

TEST_CASE("both blocks hold against differences") {
  test::check_block<pre_ln_equation>({.step = 1e-3});
  test::check_block<sas_p_equation>({.step = 1e-3});
}

TEST_CASE("switches of the configuration that the two tokens leave alone work too") {
  test::check_block<switches>({.step = 1e-3});
  CHECK(!has_parameter<switches>("blocks.2.mlp_skip"));
  CHECK(!has_parameter<switches>("blocks.2.attention_gain"));  // fixed, not trained
  CHECK(has_parameter<switches>("blocks.2.attention.value.bias"));
  test::check_block<inner>({.step = 1e-3});
  CHECK(has_parameter<inner>("blocks.0.attention_skip"));
  test::check_block<separate>({.step = 1e-3});
  CHECK(!has_parameter<separate>("blocks.0.attention.value.alpha"));
  CHECK(has_parameter<separate>("blocks.0.attention.value.beta"));
  CHECK(has_parameter<separate>("blocks.0.attention.projection.alpha"));
  CHECK(!has_parameter<separate>("blocks.0.attention.projection.beta"));
  Evaluation<separate> run(Rows{.tokens = 2});
  CHECK(run.parameter("blocks.0.attention.projection.alpha")[0] == 2);
  CHECK(run.parameter("blocks.0.attention.value.beta")[0] == 0.1);
}

TEST_SUITE_END();
