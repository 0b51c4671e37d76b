// SPDX-License-Identifier: MIT
#include <simplx/nn/gain.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
struct Scaled {
  Gain gain;
  constexpr Expr operator()(Expr x) const { return scaled(gain, "gain", x) + x; }
};
inline constexpr test::OnTokens<Scaled> one{3, {}}, written{3, {fixed_at(0.5)}}, trained{3, {trainable(0.5)}};
static_assert(parameters<one> == 0 && parameters<written> == 0 && parameters<trained> == 1);
}  // namespace

TEST_CASE("nn/gain: one leaves no factor; fixed and trained ones multiply") {
  const auto first = [](auto&& run) {
    run.input("x")[0] = 2;
    run.forward();
    return run.output()[0];
  };
  CHECK(first(Evaluation<one>(Rows{.tokens = 1})) == 4);
  CHECK(first(Evaluation<written>(Rows{.tokens = 1})) == 3);
  CHECK(first(Evaluation<trained>(Rows{.tokens = 1})) == 3);
  CHECK(GraphOf<one>::count < GraphOf<written>::count);
}
