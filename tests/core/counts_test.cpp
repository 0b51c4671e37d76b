// SPDX-License-Identifier: MIT
#include <simplx/core/counts.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

inline constexpr Decoder tiny_sas_p{.block = sas_p}, tiny_pre_ln{.block = pre_ln};
inline constexpr Decoder deep{.block = sas_p, .layers = 72};
struct Product {
  constexpr Expr operator()(Expr x) const { return x * weight("w", width(x), 64); }
};
inline constexpr test::OnTokens<Product> product{48};

// blocks.md: embedding, per layer 2 d^2 + 2 d F + d + 3 H + 2, the first value d^2 + 2, final norm d.
static_assert(parameters<tiny_sas_p> ==
              256 * 128 + 6 * (2 * 128 * 128 + 2 * 128 * 512 + 128 + 12 + 2) + 128 * 128 + 2 + 128);
static_assert(parameters<tiny_sas_p> == 1'033'174);
static_assert(parameters<tiny_pre_ln> == 256 * 128 + 6 * (4 * 128 * 128 + 2 * 128 * 512 + 2 * 128) + 128);
static_assert(parameters<deep> - parameters<tiny_sas_p> == 66 * (2 * 128 * 128 + 2 * 128 * 512 + 128 + 12 + 2));

}  // namespace

TEST_SUITE_BEGIN("core/counts");

TEST_CASE("FLOPs are those of the formula, dense and causal") {
  // Pre-LN, for each token: 6 layers of 2 (4 d^2 + 2 d F) + 4 T d, and the head 2 V d.
  const double dense = 6 * (2.0 * (4 * 128 * 128 + 2 * 128 * 512) + 4 * 128 * 128) + 2 * 256 * 128;
  CHECK(flops<tiny_pre_ln>(tokens{128}) == doctest::Approx(128 * dense));
  const double causal = dense - 6 * 4 * 128 * 128 + 6 * 4 * 64.5 * 128;
  CHECK(causal_flops<tiny_pre_ln>(tokens{128}) == doctest::Approx(128 * causal));
  // SAS-P has two projections less in each layer, but for the first value.
  CHECK(flops<tiny_sas_p>(tokens{128}) == doctest::Approx(128 * (dense - 6 * 4 * 128 * 128 + 2 * 128 * 128)));
  CHECK(flops<tiny_sas_p>(Rows{.tokens = 1024, .sequences = 8}) == doctest::Approx(8 * flops<tiny_sas_p>(tokens{128})));
}

TEST_CASE("bytes of an evaluation grow with the rows, and little with what is not kept") {
  static_assert(arena_bytes<tiny_sas_p>(tokens{128}) < 6'000'000);
  static_assert(arena_bytes_on<tiny_sas_p, Cpu<float>>(tokens{128}) < arena_bytes<tiny_sas_p>(tokens{128}) + 1'200'000);
  CHECK(arena_bytes<tiny_pre_ln>(tokens{128}) > arena_bytes<tiny_sas_p>(tokens{128}));
  CHECK(arena_bytes<tiny_sas_p>(tokens{256}) < 2.1 * arena_bytes<tiny_sas_p>(tokens{128}));
  const double per_layer = double(arena_bytes<deep>(tokens{128}) - arena_bytes<tiny_sas_p>(tokens{128})) / 66;
  CHECK(per_layer < 1600 * 128 * 4);  // columns kept by a layer
  CHECK(kept_bytes<deep>(tokens{128}) - kept_bytes<tiny_sas_p>(tokens{128}) == doctest::Approx(66 * per_layer));
  CHECK(kept_bytes<deep>(tokens{128}) < arena_bytes<deep>(tokens{128}));
  CHECK(kept_bytes<deep>(tokens{256}) == 2 * kept_bytes<deep>(tokens{128}));
  CHECK(kept_bytes<deep>(tokens{128}, 2) == kept_bytes<deep>(tokens{128}) / 2);
}

TEST_CASE("a product that is only an epilogue's beginning still has its scratch") {
  CHECK(detail::graph_scratch<GraphOf<product>, Cpu<float>>(tokens{9}) >= 9 * 64);
  CHECK(test::distance_to_reference<product, float>() < 1e-5);
}

TEST_SUITE_END();
