// SPDX-License-Identifier: MIT
#include <simplx/nn/head_norm.hpp>

#include <simplx/core/named.hpp>

#include "core/built.hpp"
#include "support.hpp"

using namespace simplx;

namespace {

inline constexpr test::OnTokens<HeadNorm> normed{12, {.heads = 3, .epsilon = 0.1}}, of_one{12, {.heads = 1}};
static_assert(parameters<normed> == 4 && parameters<of_one> == 12);

}  // namespace

TEST_SUITE_BEGIN("nn/head_norm");

TEST_CASE("each head is divided by the root of its mean square, with one gain for all") {
  Evaluation<normed> run(Rows{.tokens = 5});
  test::fill_inputs(run);
  for (std::size_t c = 0; c < 4; ++c) run.parameter("gain")[c] = 1.0 + double(c);
  run.forward();
  for (std::size_t head = 0; head < 15; ++head) {
    const auto x = run.input("x").subspan(4 * head, 4), y = run.output().subspan(4 * head, 4);
    double mean_square = 0;
    for (const double value : x) mean_square += value * value / 4;
    for (std::size_t c = 0; c < 4; ++c) {
      CHECK(y[c] == doctest::Approx((1.0 + double(c)) * x[c] / std::sqrt(mean_square + 0.1)).epsilon(1e-14));
    }
  }
}

TEST_CASE("derivatives of all orders") {
  test::check_op<normed>();
  test::check_op<of_one>();
}

TEST_CASE("heads that do not divide the columns are refused") {
  for (const int heads : {0, -1, 5}) {
    const test::Built model{HeadNorm{heads}(input("x", rows_of(Axis::tokens, 12)))};
    CHECK(model.root.node->rule == Tag("heads"));
  }
}

TEST_SUITE_END();
