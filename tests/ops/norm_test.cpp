// SPDX-License-Identifier: MIT
#include <simplx/ops/norm.hpp>

#include "support.hpp"

#include <simplx/nn/norm.hpp>

using namespace simplx;

namespace {

struct Rms {
  constexpr Expr operator()(Expr x) const { return RmsNorm{0.3}(x) + x; }  // a large epsilon, so that its place matters
};
struct Inside {
  constexpr Expr operator()(Expr x) const { return RmsNormInside{0.3}(x) + x; }
};
struct Layer {
  constexpr Expr operator()(Expr x) const { return LayerNorm{0.3}(x) + x; }
};
inline constexpr test::OnTokens<Inside> inside19{19}, inside1{1};
inline constexpr auto plain_inside = [] {
  return rms_norm_inside(input("x", rows_of(Axis::tokens, 2)), vector("gain", 2), 7.0);
};
inline constexpr test::OnTokens<Rms> rms16{16}, rms5{5}, rms1{1};
inline constexpr test::OnTokens<Inside> inside16{16}, inside5{5};
inline constexpr test::OnTokens<Layer> layer16{16}, layer5{5};
inline constexpr test::OnTokens<RmsNorm> plain_rms{2};
inline constexpr test::OnTokens<LayerNorm> plain_layer{2};

}  // namespace

TEST_SUITE_BEGIN("ops/norm");

TEST_CASE("gradients, at whole vectors and odd widths") {
  test::check_model<rms16>();
  test::check_op<rms5>();
  test::check_model<rms1>();
  test::check_model<inside16>();
  test::check_model<inside5>();
  test::check_model<layer16>();
  test::check_op<layer5>();
  CHECK(test::distance_to_reference<rms16, float>() < 1e-5);
  CHECK(test::distance_to_reference<inside16, float>() < 1e-5);
  CHECK(test::distance_to_reference<layer16, float>() < 1e-5);
}

TEST_CASE("RMSNorm by hand, epsilon outside of the root") {
  Evaluation<plain_rms> run(Rows{.tokens = 2});
  run.constant("epsilon")[0] = 1;  // a hyper-parameter, set at run time
  run.parameter("gain")[1] = 10;
  std::ranges::copy(std::array{3.0, -3.0, 0.0, 0.0}, run.input("x").begin());  // r = 3 and r = 0
  run.forward();
  CHECK(run.output()[0] == doctest::Approx(0.75));  // 3 / (3 + 1)
  CHECK(run.output()[1] == doctest::Approx(-7.5));
  CHECK(run.output()[2] == 0);
  std::ranges::fill(run.output_gradient(), 1.0);
  run.backward();
  CHECK(run.input_gradient("x")[2] == doctest::Approx(1));  // a row of zeros: q u alone
  CHECK(run.input_gradient("x")[3] == doctest::Approx(10));
}

TEST_CASE("RMSNorm with epsilon inside of the root, a literal") {
  test::check_op<inside19>();
  test::check_op<inside1>();
  CHECK(test::distance_to_reference<inside19, float>() < 1e-5);
  Evaluation<plain_inside> run(Rows{.tokens = 1});
  std::ranges::copy(std::array{3.0, -3.0}, run.input("x").begin());
  run.forward();
  CHECK(run.output()[0] == doctest::Approx(0.75));  // 3 / sqrt(9 + 7)
}

TEST_CASE("LayerNorm by hand") {
  Evaluation<plain_layer> run(Rows{.tokens = 1});
  run.constant("epsilon")[0] = 0;
  run.parameter("gain")[0] = 2;
  run.parameter("bias")[1] = 5;
  std::ranges::copy(std::array{1.0, 5.0}, run.input("x").begin());  // mean 3, deviation 2
  run.forward();
  CHECK(run.output()[0] == doctest::Approx(-2));
  CHECK(run.output()[1] == doctest::Approx(6));
}

TEST_SUITE_END();
