// SPDX-License-Identifier: MIT
#include <simplx/nn/residual_scale.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
struct Scaled {
  ResidualScale kind;
  constexpr Expr operator()(Expr x) const { return residual_scaled(kind, "scale", x) + square(x); }
};
inline constexpr test::OnTokens<Scaled> none{3, {ResidualScale::none}}, number{3, {ResidualScale::number}},
    each{3, {ResidualScale::vector}};
static_assert(parameters<none> == 0 && parameters<number> == 1 && parameters<each> == 3);
}  // namespace

TEST_CASE("nn/residual_scale: one factor for all columns or one for each, one at first") {
  const auto second = [](auto&& run, double scale) {
    run.input("x")[1] = 2;
    if (!run.tensors().parameters.empty()) {
      for (double& factor : run.parameter("scale")) {
        CHECK(factor == 1);
        factor = scale;
      }
      CHECK(!run.tensors().parameters[0].decays);
    }
    run.forward();
    return run.output()[1];
  };
  CHECK(second(Evaluation<none>(Rows{.tokens = 1}), 0) == 6);
  CHECK(second(Evaluation<number>(Rows{.tokens = 1}), 0.5) == 5);
  CHECK(second(Evaluation<each>(Rows{.tokens = 1}), -1) == 2);
  test::check_model<number>();
  test::check_model<each>();
}
