// SPDX-License-Identifier: MIT
#include <simplx/ops/cross_entropy.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

template <Index classes>
struct Loss {
  constexpr Expr operator()(Expr x) const {
    auto logits = x * weight("w", width(x), classes, normal(1));
    return cross_entropy(logits, indices("labels", Axis::tokens));
  }
};
struct LossTwice {  // logits with another reader, so that their gradient is accumulated
  struct Results {
    Expr loss, logits;
  };
  constexpr Results operator()(Expr x) const {
    auto logits = x * weight("w", width(x), 16, normal(1));
    return {cross_entropy(logits, indices("labels", Axis::tokens)), logits * 2.0};
  }
};
inline constexpr test::OnTokens<Loss<16>> whole{8};
inline constexpr test::OnTokens<Loss<5>> odd{8};
inline constexpr test::OnTokens<Loss<7>> hand{1};
inline constexpr test::OnTokens<LossTwice> twice{8};

}  // namespace

TEST_SUITE_BEGIN("ops/cross_entropy");

TEST_CASE("gradients, with labels that carry no loss") {
  test::check_model<whole>();
  test::check_model<odd>();
  test::check_model<twice>();
  CHECK(test::distance_to_reference<whole, float>() < 1e-5);
}

TEST_CASE("equal logits cost ln(classes), ignored rows nothing, and huge logits stay finite") {
  Evaluation<hand> run(Rows{.tokens = 3});
  std::ranges::fill(run.parameter("w"), 1.0);
  std::ranges::copy(std::array{0.0, 1.0, 1e4}, run.input("x").begin());
  std::ranges::copy(std::array{2, -100, 4}, run.indices("labels").begin());
  run.forward();
  CHECK(run.output()[0] == doctest::Approx(std::log(7)));
  CHECK(run.output()[1] == 0);
  CHECK(run.output()[2] == doctest::Approx(std::log(7)));
  std::ranges::fill(run.seed(), 1.0);
  run.backward();
  for (const double g : run.gradients()) CHECK(std::isfinite(g));
  CHECK(run.input_gradient("x")[1] == 0);
}

TEST_SUITE_END();
