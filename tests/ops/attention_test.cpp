// SPDX-License-Identifier: MIT
#include <simplx/ops/attention.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

template <int heads>
struct Softmax {
  constexpr Expr operator()(Expr x) const {
    auto w = [&](const char* name) { return x * weight(name, width(x), width(x), normal(0.5)); };
    return attention(w("q"), w("k"), w("v"), heads);
  }
};
template <int heads>
struct Shaped {
  constexpr Expr operator()(Expr x) const {
    auto q = x * weight("q", width(x), width(x), normal(0.5)), k = x * weight("k", width(x), width(x), normal(0.5));
    return shaped_attention(q, k, x, vector("alpha", heads), vector("beta", heads), vector("gamma", heads), heads);
  }
};
struct Same {  // q = k = v, and the same value read by another op: one gradient, five contributions
  constexpr Expr operator()(Expr x) const {
    auto q = x * weight("q", width(x), width(x), normal(0.5));
    return q + attention(q, q, q, 2) + attention(x, q, x, 1);
  }
};
inline constexpr test::OnTokens<Softmax<2>> softmax_fast{16}, softmax_odd{6};
inline constexpr test::OnTokens<Shaped<2>> shaped_fast{16}, shaped_odd{6};
inline constexpr test::OnTokens<Same> same_fast{16}, same_odd{6};
inline constexpr test::OnTokens<Shaped<2>> shaped_float{64};

}  // namespace

TEST_SUITE_BEGIN("ops/attention");

TEST_CASE("gradients of query, key, value and gains, over ragged sequences") {
  test::check_model<softmax_fast>();
  test::check_model<softmax_odd>();
  test::check_model<shaped_fast>();
  test::check_model<shaped_odd>();
}

TEST_CASE("one value as query, key and value") {
  test::check_model<same_fast>();
  test::check_model<same_odd>();
}

TEST_CASE("floats agree with the reference") {
  CHECK(test::distance_to_reference<shaped_float, float>({20, 1, 33}) < 2e-5);
}

TEST_CASE("with zero queries and gains of one, shaped attention is the identity; with other queries it is not") {
  Evaluation<shaped_fast> run(Rows{.tokens = 40}, 1, {7, 33});
  test::fill_inputs(run);
  std::ranges::fill(run.parameter("q"), 0.0);
  run.forward();
  double worst = 0;
  for (std::size_t i = 0; i < run.output().size(); ++i) worst = std::max(worst, std::abs(run.output()[i] - run.input("x")[i]));
  CHECK(worst < 1e-14);
  run.parameter("q")[0] = 1;
  run.forward();
  worst = 0;
  for (std::size_t i = 0; i < run.output().size(); ++i) worst = std::max(worst, std::abs(run.output()[i] - run.input("x")[i]));
  CHECK(worst > 1e-3);
}

TEST_CASE("with zero queries the gradients of beta and gamma are opposite, and keys learn nothing") {
  Evaluation<shaped_fast> run(Rows{.tokens = 9}, 1, {4, 5});
  test::fill_inputs(run);
  std::ranges::fill(run.parameter("q"), 0.0);
  run.forward();
  for (std::size_t i = 0; i < run.seed().size(); ++i) run.seed()[i] = normal(5, i);
  run.backward();
  for (std::size_t h = 0; h < 2; ++h) {
    CHECK(run.gradient("beta")[h] != 0);
    CHECK(run.gradient("beta")[h] + run.gradient("gamma")[h] == doctest::Approx(0).epsilon(1e-13));
  }
  double query = 0;
  for (const double g : run.gradient("q")) query = std::max(query, std::abs(g));
  CHECK(query > 0);
  for (const double g : run.gradient("k")) CHECK(g == 0);
}

TEST_SUITE_END();
