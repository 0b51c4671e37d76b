// SPDX-License-Identifier: MIT
#include <simplx/ops/custom.hpp>

#include <simplx/ops/grad.hpp>
#include <simplx/ops/softmax.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

inline constexpr auto clipped = with_pull_back([](Expr x) { return 2.0 * x; },
                                               [](Expr dy, Expr, Expr) { return clamp(dy, -1.0, 1.0); });
inline constexpr auto clipping = [] { return clipped(variable("x", rows_of(Axis::tokens, 3))); };

struct Pair {
  Expr first, second;
};
/// a softmax of a product with the derivative written out: correct, so that the checks can tell.
inline constexpr auto mixture = with_pull_back(
    [](Expr x, Expr w) { return softmax(x * w); },
    [](Expr dy, Expr y, Expr x, Expr w) {
      auto dz = y * (dy - sum(dy * y, Over::columns));
      return Pair{dz * transpose(w), transpose(x) * dz};
    });
struct Mixed {
  constexpr Expr operator()(Expr x) const {
    auto y = x * vector("row", width(x));
    auto w = weight("w", width(x), 7, normal(1));
    return mixture(y, w) * vector("out", 7) + sum(y * y) + sum(w);
  }
};
struct InStack {
  constexpr Expr operator()(Expr x) const { return x + mixture(x, weight("w", width(x), width(x), normal(1))); }
};
inline constexpr test::OnTokens<Mixed> mixed{5};
inline constexpr auto stacked = [] { return stack("blocks", 3, InStack{}, variable("x", rows_of(Axis::tokens, 8))); };
struct Four {
  Expr first, second, third, fourth;
};
/// As many operands as the results of a graph.
inline constexpr auto weighted = with_pull_back([](Expr a, Expr b, Expr c, Expr d) { return a + 2.0 * b + c * d; },
                                                [](Expr dy, Expr, Expr, Expr, Expr c, Expr d) {
                                                  return Four{1.0 * dy, 2.0 * dy, d * dy, c * dy};
                                                });
inline constexpr auto of_four = [] {
  auto x = variable("x", rows_of(Axis::tokens, 3));
  return weighted(x, sin(x), cos(x), x * vector("row", 3));
};
inline constexpr auto derivative = [] {
  auto x = variable("x", rows_of(Axis::tokens, 3));
  return grad(clipped(x) * 3.0, x);
};

}  // namespace

TEST_SUITE_BEGIN("ops/custom");

TEST_CASE("the pull-back is the user's, not the derivative") {
  Evaluation<clipping> run(Rows{.tokens = 1});
  std::ranges::copy(std::array{1.0, 2.0, 3.0}, run.input("x").begin());
  run.forward();
  CHECK(run.output()[2] == 6);
  std::ranges::copy(std::array{0.5, -7.0, 9.0}, run.output_gradient().begin());
  run.backward();
  CHECK(run.input_gradient("x")[0] == 0.5);
  CHECK(run.input_gradient("x")[1] == -1);
  CHECK(run.input_gradient("x")[2] == 1);
}

TEST_CASE("a pull-back that is the derivative passes every check, with several operands and in a stack") {
  test::check_op<mixed>({.step = 0.01});
  test::check_op<of_four>({.step = 0.01});
  const GradientReport report = gradcheck<stacked>({.step = 0.01});
  CHECK(report.worst < 1e-7);
  CHECK(report.adjoint < 1e-11);
  CHECK(report.jvp < 1e-13);
}

TEST_CASE("grad(y, x) uses it as well") {
  Evaluation<derivative> run(Rows{.tokens = 1});
  run.forward();
  CHECK(run.output()[0] == 1);  // 3 is clipped
}

TEST_SUITE_END();
