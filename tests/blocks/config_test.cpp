// SPDX-License-Identifier: MIT
#include <simplx/blocks/config.hpp>

#include <doctest/doctest.h>

using namespace simplx;

namespace {
constexpr BlockConfig layered{.norm = Norm::none, .first_norm = true, .value = no_projection, .first_value = true};
constexpr bool breaks(const BlockConfig& config, Tag rule) { return config.broken_rule() == rule; }
constexpr Projection around(Init base, Gain alpha, Gain beta) { return reparameterised(base, alpha, beta); }
}  // namespace

static_assert(BlockConfig{}.broken_rule().empty() && layered.broken_rule().empty());
static_assert(layered.at(0).value.kind == Projection::Kind::reparameterised && layered.at(0).first_norm);
static_assert(layered.at(0).value.weights.base == identity && layered.at(0).value.weights.beta == trainable(1));
static_assert(layered.at(1).value.kind == Projection::Kind::none && !layered.at(1).first_norm);

// What makes no sense is refused, each for its own reason.
static_assert(breaks({.branches = Branches::parallel}, "parallel skip"));
static_assert(breaks({.branches = Branches::parallel, .norm_position = NormPosition::after, .attention_skip = no_skip},
                     "parallel post-norm"));
static_assert(breaks({.branches = Branches::parallel, .attention_skip = no_skip, .mlp_skip = trainable(1)},
                     "parallel skip gain"));
static_assert(breaks({.mlp_gain = no_skip}, "empty branch") && breaks({.attention_gain = fixed_at(0)}, "empty branch"));
static_assert(breaks({.value = no_projection, .value_projection_bias = true}, "bias of identity"));
static_assert(breaks({.projection = around(orthogonal, fixed_at(1), fixed_at(1)), .value_projection_bias = true},
                     "bias of identity"));
static_assert(breaks({.first_value = true}, "first value"));
static_assert(breaks({.value = around(identity, trainable(1), trainable(1)), .first_value = true}, "first value"));
static_assert(breaks({.first_norm = true}, "first norm"));
static_assert(breaks({.slope = 1.5}, "leaky slope") && breaks({.slope = -0.1}, "leaky slope"));
static_assert(breaks({.value = around(orthogonal, fixed_at(0), fixed_at(1))}, "base removed"));
static_assert(breaks({.projection = around(orthogonal, trainable(1), trainable(0))}, "dead delta"));
static_assert(breaks({.projection = around(zeros, trainable(1), trainable(1))}, "law of the base"));
static_assert(breaks({.value = around(normal(0.1), trainable(1), fixed_at(0))}, ""));

// Norms that are none, of what is none, or of zeros; scales of skips that are none or have a gain already.
static_assert(breaks({.norm = Norm::none, .norm_position = NormPosition::after}, "post-norm of nothing"));
static_assert(breaks({.norm = Norm::none, .attention_norm = true}, "inner norm"));
static_assert(breaks({.norm = Norm::none, .mlp_norm = true}, "inner norm"));
static_assert(breaks({.norm = Norm::none, .query_key_value_norm = true}, "inner norm"));
static_assert(breaks({.matrix = AttentionMatrix::shaped, .query_key_value_norm = true}, "norm of zero queries"));
static_assert(breaks({.value = no_projection, .query_key_value_norm = true}, "norm of identity"));
static_assert(breaks({.value = around(identity, trainable(1), trainable(1)), .query_key_value_norm = true}, ""));
static_assert(breaks({.attention_skip = no_skip, .attention_residual_scale = ResidualScale::vector}, "residual scale"));
static_assert(breaks({.attention_skip = trainable(1), .attention_residual_scale = ResidualScale::number},
                     "residual scale"));
static_assert(breaks({.mlp_skip = fixed_at(0.5), .mlp_residual_scale = ResidualScale::vector}, "residual scale"));
static_assert(breaks({.branches = Branches::parallel, .attention_skip = no_skip,
                      .mlp_residual_scale = ResidualScale::vector}, "residual scale"));
static_assert(breaks({.attention_residual_scale = ResidualScale::number, .mlp_residual_scale = ResidualScale::vector},
                     ""));
static_assert(breaks({.norm_position = NormPosition::after, .gated = true}, ""));

TEST_CASE("blocks/config: of a fixed gain of 0 or 1 only the term's absence or presence is left") {
  CHECK(fixed_at(0) == no_skip);
  CHECK(fixed_at(1) == Gain{});
  CHECK(fixed_at(0.5).kind == Gain::Kind::fixed);
  CHECK(trainable(1) != Gain{});
}
