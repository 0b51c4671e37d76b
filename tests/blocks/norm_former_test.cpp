// SPDX-License-Identifier: MIT
#include <simplx/blocks/norm_former.hpp>

#include "three_layers.hpp"

#include <simplx/blocks/pre_ln.hpp>

using namespace simplx;

namespace {
constexpr auto vector_scale = ResidualScale::vector, no_scale = ResidualScale::none;
constexpr auto before = HeadScale::before_projection, nowhere = HeadScale::none;

inline constexpr test::ThreeLayers<NormFormer> equation{{2, 24}};
inline constexpr test::ThreeLayers<NormFormer> after{{2, 24, HeadScale::after_projection}};
inline constexpr test::ThreeLayers<NormFormer> resscale{{2, 24, before, vector_scale}};
inline constexpr test::ThreeLayers<NormFormer> scalar_scale{{2, 24, before, ResidualScale::number}};
inline constexpr test::ThreeLayers<NormFormer> both{{2, 24, before, vector_scale, vector_scale}};
inline constexpr test::ThreeLayers<NormFormer> no_head_scale{{2, 24, nowhere, vector_scale}};
inline constexpr test::ThreeLayers<NormFormerNoPostAttentionNorm> no_attention_norm{{2, 24, before, vector_scale}};
inline constexpr test::ThreeLayers<NormFormerNoFfnNorm> no_ffn_norm{{2, 24, before, vector_scale}};
inline constexpr test::ThreeLayers<NormFormerQkvNorm> qkv_norm{{2, 24, before, vector_scale}};
inline constexpr test::ThreeLayers<NormFormerRelu2> relu2{{2, 24}};
inline constexpr test::ThreeLayers<NormFormerOf<Identity, Identity>> scale_only{{2, 24, nowhere, vector_scale}};
inline constexpr test::ThreeLayers<NormFormerOf<Identity, Identity>> nothing_added{{2, 24, nowhere, no_scale}};
static_assert(same_graph<equation, test::token<norm_former>>());
static_assert(same_graph<after, test::token<norm_former_after_projection>>());
static_assert(same_graph<resscale, test::token<norm_former_resscale>>());
static_assert(same_graph<scalar_scale, test::token<norm_former_resscale_scalar>>());
static_assert(same_graph<both, test::token<norm_former_resscale_both>>());
static_assert(same_graph<no_head_scale, test::token<norm_former_resscale_no_head_scale>>());
static_assert(same_graph<no_attention_norm, test::token<norm_former_resscale_no_post_attention_norm>>());
static_assert(same_graph<no_ffn_norm, test::token<norm_former_resscale_no_ffn_norm>>());
static_assert(same_graph<qkv_norm, test::token<norm_former_resscale_qkv_norm>>());
static_assert(same_graph<relu2, test::token<norm_former_relu2>>());
static_assert(same_graph<scale_only, test::token<resscale_only>>());
static_assert(same_graph<nothing_added, test::token<pre_ln_biased>>());
inline constexpr test::ThreeLayers<NormFormerOf<Identity, Identity, ReluSquared>> nothing_added_relu2{
    {2, 24, nowhere, no_scale}};
static_assert(same_graph<nothing_added_relu2, test::token<pre_ln_biased_relu2>>());
static_assert(!same_graph<equation, after>() && !same_graph<resscale, scalar_scale>());

// 2 d + 2 F + H more than its baseline, a block; d or 1 for ResScale, 6 d for norms of queries, keys and values.
static_assert(parameters<equation> == parameters<nothing_added> + 3 * (2 * 16 + 2 * 24 + 2));
static_assert(parameters<after> == parameters<equation> && parameters<relu2> == parameters<equation>);
static_assert(parameters<resscale> == parameters<equation> + 3 * 16);
static_assert(parameters<scalar_scale> == parameters<equation> + 3);
static_assert(parameters<both> == parameters<resscale> + 3 * 16);
static_assert(parameters<no_attention_norm> == parameters<resscale> - 3 * 2 * 16);
static_assert(parameters<no_ffn_norm> == parameters<resscale> - 3 * 2 * 24);
static_assert(parameters<no_head_scale> == parameters<resscale> - 3 * 2);
static_assert(parameters<qkv_norm> == parameters<resscale> + 3 * 6 * 16);
static_assert(parameters<scale_only> == parameters<nothing_added> + 3 * 16);

static_assert(parameter_shape<both>("blocks.0.attention.head_scale") == fixed_shape(1, 2));
static_assert(parameter_shape<both>("blocks.1.attention.norm.bias") == fixed_shape(1, 16));
static_assert(parameter_shape<both>("blocks.2.mlp.norm.gain") == fixed_shape(1, 24));
static_assert(parameter_shape<both>("blocks.2.attention_residual_scale") == fixed_shape(1, 16));
static_assert(parameter_shape<scalar_scale>("blocks.0.mlp_residual_scale") == fixed_shape(1, 1));
static_assert(has_parameter<qkv_norm>("blocks.0.attention.query_norm.gain") &&
              has_parameter<qkv_norm>("blocks.0.attention.key_norm.bias") &&
              has_parameter<qkv_norm>("blocks.0.attention.value_norm.gain"));

// Without a projection the head scale after it is the one in front of it.
constexpr BlockConfig without_projection(HeadScale place) {
  return detail::with(norm_former, [=](BlockConfig& c) {
    c.head_scale = place;
    c.projection = no_projection;
    c.value_projection_bias = false;
  });
}
static_assert(same_graph<test::token<without_projection(HeadScale::before_projection)>,
                         test::token<without_projection(HeadScale::after_projection)>>());

}  // namespace

TEST_SUITE_BEGIN("blocks/norm_former");

TEST_CASE("additions start as ones and zeros, equation and token alike; only matrices decay") {
  Evaluation<both> run(Rows{.tokens = 4});
  Evaluation<test::token<norm_former_resscale_both>> configured(Rows{.tokens = 4});
  CHECK(std::ranges::equal(run.parameters(), configured.parameters()));
  CHECK(std::ranges::count(run.parameter("blocks.1.attention.head_scale"), 1.0) == 2);
  CHECK(std::ranges::count(run.parameter("blocks.1.attention.norm.gain"), 1.0) == 16);
  CHECK(std::ranges::count(run.parameter("blocks.1.mlp.norm.bias"), 0.0) == 24);
  CHECK(std::ranges::count(run.parameter("blocks.1.mlp_residual_scale"), 1.0) == 16);
  CHECK(std::ranges::count(run.parameter("blocks.1.attention_residual_scale"), 1.0) == 16);
  for (const TensorInfo& tensor : run.tensors().parameters) {
    CAPTURE(tensor.name);
    CHECK(tensor.decays == tensor.name.ends_with(".weight"));
  }
  for (const TensorInfo& tensor : run.tensors().constants) {
    CAPTURE(tensor.name);
    CHECK(run.constant(tensor.name)[0] == 1e-5);
    CHECK(configured.constant(tensor.name)[0] == 1e-5);
  }
}

TEST_CASE("HeadScale in front of the projection is a factor of its rows; after it, of its columns and bias") {
  const auto scale = [](auto& scaled, auto& together, bool columns) {
    for (auto* run : {&scaled, &together}) test::fill_inputs(*run), test::move_parameters(*run);
    const double eta[] = {0.7, -1.3};
    for (const char* layer : {"blocks.0", "blocks.1", "blocks.2"}) {
      const std::string attention = std::string(layer) + ".attention.";
      const auto weight = together.parameter(attention + "projection.weight");
      const auto bias = together.parameter(attention + "projection.bias");
      for (std::size_t i = 0; i < 16 * 16; ++i) weight[i] *= eta[(columns ? i % 16 : i / 16) / 8];  // two heads of 8
      for (std::size_t i = 0; columns && i < 16; ++i) bias[i] *= eta[i / 8];
      std::ranges::copy(eta, scaled.parameter(attention + "head_scale").begin());
      std::ranges::fill(together.parameter(attention + "head_scale"), 1.0);
    }
    scaled.forward(), together.forward();
    CHECK(test::largest_difference(scaled.output(), together.output()) < 1e-13);
  };
  Evaluation<equation> a(Rows{.tokens = 6}, 1, {4, 2}), b(Rows{.tokens = 6}, 1, {4, 2});
  scale(a, b, false);
  Evaluation<after> c(Rows{.tokens = 6}, 1, {4, 2}), d(Rows{.tokens = 6}, 1, {4, 2});
  scale(c, d, true);
}

TEST_SUITE_END();
