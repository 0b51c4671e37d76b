// SPDX-License-Identifier: MIT
#include <simplx/ops/activation.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
struct Leaky {
  constexpr Expr operator()(Expr x) const {
    return leaky_relu(x, hyper("slope", 0.2)) + leaky_relu(-x, scalar("trained", constant(0.3)));
  }
};
struct Smooth {
  constexpr Expr operator()(Expr x) const { return gelu(x) + gelu_tanh(2.0 * x) * silu(x); }
};
struct Squared {
  constexpr Expr operator()(Expr x) const { return relu_squared(x); }
};
struct GatedUnits {
  constexpr Expr operator()(Expr x) const {
    auto y = x * vector("row", width(x));
    return glu(y) + reglu(y) + geglu(y) + swiglu(y);
  }
};
struct OfWeights {  // square matrices are multiplied element by element here, too
  constexpr Expr operator()(Expr x) const {
    auto w = weight("w", width(x), width(x), normal(1));
    return x * (gelu(w) + gelu_tanh(w) + silu(w)) + x * swiglu(weight("v", width(x), 2 * width(x), normal(1)));
  }
};
struct Values {
  Expr gelu, gelu_tanh, silu, leaky;
};
inline constexpr auto values = [] {
  auto x = input("x", rows_of(Axis::batch, 1));
  return Values{gelu(x), gelu_tanh(x), silu(x), leaky_relu(x, 0.2)};
};
inline constexpr auto of_matrix = [] {
  auto w = input("w", fixed_shape(2, 2));
  return Values{gelu(w), gelu_tanh(w), silu(w), glu(w)};
};
}  // namespace

TEST_SUITE_BEGIN("ops/activation");

TEST_CASE_TEMPLATE_DEFINE("derivatives of every order", T, derivatives) {
  static constexpr test::OnTokens<T> model{38};
  test::check_op<model>({.step = 0.005});
  CHECK(test::distance_to_reference<model, float>() < 1e-5);
}
TEST_CASE_TEMPLATE_INVOKE(derivatives, Leaky, Smooth, Squared, GatedUnits, OfWeights);

TEST_CASE("values known from elsewhere, and the kink") {
  Evaluation<values> run(Rows{.batch = 3});
  std::ranges::copy(std::array{1.0, -2.0, 0.0}, run.input("x").begin());
  run.forward();
  CHECK(run.output(0)[0] == doctest::Approx(0.8413447460685429));
  CHECK(run.output(0)[1] == doctest::Approx(-0.04550026389635842));
  CHECK(run.output(1)[0] == doctest::Approx(0.8411919906082768));
  CHECK(run.output(1)[1] == doctest::Approx(-0.04540230591222937));
  CHECK(run.output(2)[0] == doctest::Approx(0.7310585786300049));
  CHECK(run.output(3)[1] == doctest::Approx(-0.4));
  Evaluation<of_matrix> matrix(Rows{});
  std::ranges::copy(std::array{1.0, 0.0, 0.0, -2.0}, matrix.input("w").begin());
  matrix.forward();
  CHECK(matrix.output(0)[3] == run.output(0)[1]);
  CHECK(matrix.output(1)[3] == run.output(1)[1]);
  CHECK(matrix.output(2)[0] == run.output(2)[0]);
  CHECK(matrix.output(3)[0] == 0.5);  // 1 sigmoid(0)
  CHECK(op<"leaky_relu">::d<0>(5.0, 0.0, 0.0, 0.2) == 5);  // the derivative at 0 is 1
  for (const float x : {10.0f, 100.0f, 1e19f, 1e30f}) {  // where x^2 is infinite, too
    CHECK(op<"gelu_tanh">::f(x) == x);
    CHECK(op<"gelu_tanh">::f(-x) == 0);
    CHECK(op<"gelu_tanh">::d<0>(1.0f, 0.0f, x) == 1);
    CHECK(op<"gelu_tanh">::d<0>(1.0f, 0.0f, -x) == 0);
    const Dual<float> moving(x, 1);
    CHECK(op<"gelu_tanh">::f(moving).tangent == 1);
    CHECK(op<"gelu_tanh">::d<0>(Dual<float>(1), Dual<float>(), moving).tangent == 0);
  }
}

TEST_SUITE_END();
