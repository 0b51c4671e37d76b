// SPDX-License-Identifier: MIT
#include <simplx/nn/first_layer.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
struct Block {
  FirstLayer<LayerNorm> norm;
  Linear linear;
  constexpr Expr operator()(int layer, Expr x) const {
    return named("linear", at_layer(linear, layer))(named("norm", at_layer(norm, layer))(x));
  }
};
struct Model {
  constexpr Expr operator()() const { return stack("blocks", 3, Block{}, variable("x", rows_of(Axis::tokens, 4))); }
};
inline constexpr Model model{};
static_assert(parameters<model> == 3 * 16 + 2 * 4);
}  // namespace

TEST_CASE("nn/first_layer: only layer 0 has the module; others are the same everywhere") {
  CHECK(has_parameter<model>("blocks.0.norm.gain"));
  CHECK(!has_parameter<model>("blocks.1.norm.gain"));
  CHECK(!has_parameter<model>("blocks.2.norm.gain"));
  CHECK(has_parameter<model>("blocks.2.linear.weight"));
}

TEST_CASE("nn/first_layer: a module that was not told its layer is refused") {
  Expr result = FirstLayer<LayerNorm>{}(input("x", rows_of(Axis::tokens, 4)));
  CHECK(result.node->kind == Kind::error);
  CHECK(result.node->rule == Tag("first layer"));
  detail::release(result.node);
}
