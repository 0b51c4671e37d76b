// SPDX-License-Identifier: MIT
#include <simplx/ops/cross_entropy.hpp>

#include "support.hpp"

#include <simplx/ops/activation.hpp>

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
template <Index classes>
struct Smoothed {
  constexpr Expr operator()(Expr x) const {
    auto logits = x * weight("w", width(x), classes, normal(1));
    return cross_entropy(logits, indices("labels", Axis::tokens), hyper("smoothing", 0.3));
  }
};
struct LossOfTanh {  // tanh reads its result, the logits, again
  constexpr Expr operator()(Expr x) const {
    auto logits = tanh(x * weight("w", width(x), 16, normal(1)));
    return cross_entropy(logits, indices("labels", Axis::tokens));
  }
};
inline constexpr test::OnTokens<LossOfTanh> bounded{8};
inline constexpr test::OnTokens<Smoothed<19>> smoothed{8};
inline constexpr test::OnTokens<Loss<19>> sharp{8};
inline constexpr test::OnTokens<Loss<16>> whole{8};
inline constexpr test::OnTokens<Loss<5>> odd{8};
inline constexpr test::OnTokens<Loss<7>> hand{1};
inline constexpr test::OnTokens<LossTwice> twice{8};
inline constexpr auto only_logits = [] {
  return cross_entropy(variable("x", rows_of(Axis::tokens, 2)), indices("labels", Axis::tokens));
};
inline constexpr auto smoothed_logits = [] {
  return cross_entropy(variable("x", rows_of(Axis::tokens, 33)), indices("labels", Axis::tokens),
                       hyper("smoothing", 0.1));
};

}  // namespace

TEST_SUITE_BEGIN("ops/cross_entropy");

TEST_CASE("gradients, with labels that carry no loss") {
  test::check_model<whole>();
  test::check_model<odd>();
  test::check_model<twice>();
  CHECK(test::distance_to_reference<whole, float>() < 1e-5);
}

TEST_CASE("the gradient of logits takes their place, unless somebody reads them again") {
  static_assert(GraphOf<sharp>::uses_up_values);
  static_assert(GraphOf<smoothed>::uses_up_values);
  static_assert(!GraphOf<twice>::uses_up_values);
  static_assert(!GraphOf<bounded>::uses_up_values);
  test::check_model<bounded>();
}

TEST_CASE("derivatives of every order; smoothed labels are a mixture of the label and all classes") {
  test::check_op<sharp>();
  test::check_op<smoothed>();
  CHECK(test::distance_to_reference<smoothed, float>() < 1e-5);
  Evaluation<smoothed> run(Rows{.tokens = 4}, 1);
  Evaluation<sharp> plain(Rows{.tokens = 4}, 1);
  test::fill_inputs(run, 19), test::fill_inputs(plain, 19);
  run.forward();
  std::vector<double> mixture(4);
  for (int label = -1; label < 19; ++label) {  // 0.7 of the label's own loss, 0.3 of the mean over all labels
    for (std::size_t row = 0; row < 4; ++row) {
      plain.indices("labels")[row] = label < 0 ? run.indices("labels")[row] : label;
      if (run.indices("labels")[row] == ignored_label) plain.indices("labels")[row] = ignored_label;
    }
    plain.forward();
    for (std::size_t row = 0; row < 4; ++row) mixture[row] += (label < 0 ? 0.7 : 0.3 / 19) * plain.output()[row];
  }
  for (std::size_t row = 0; row < 4; ++row) CHECK(run.output()[row] == doctest::Approx(mixture[row]));
  CHECK(run.output()[2] == 0);  // no label
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
  std::ranges::fill(run.output_gradient(), 1.0);
  run.backward();
  for (const double g : run.gradients()) CHECK(std::isfinite(g));
  CHECK(run.input_gradient("x")[1] == 0);
}

TEST_CASE("what an ignored row holds reaches nobody") {
  Evaluation<only_logits> run(Rows{.tokens = 2});
  std::ranges::copy(std::array{0.0, 1.0, double{INFINITY}, 2.0}, run.input("x").begin());
  std::ranges::copy(std::array{1, -100}, run.indices("labels").begin());
  run.forward();
  CHECK(run.output()[1] == 0);
  std::ranges::fill(run.output_gradient(), 1.0);
  run.backward();
  CHECK(run.input_gradient("x")[0] == doctest::Approx(1 / (1 + std::exp(1.0))));
  CHECK(run.input_gradient("x")[2] == 0);
  CHECK(run.input_gradient("x")[3] == 0);
}

TEST_CASE("logits far from 0 lose nothing but what they have lost themselves") {
  Evaluation<only_logits, Cpu<float>> run(Rows{.tokens = 1});
  run.indices("labels")[0] = 1;
  for (const float x : {0.0f, 1e3f, -1e5f, 1e7f}) {
    std::ranges::fill(run.input("x"), x);
    run.forward();
    CHECK(run.output()[0] == doctest::Approx(std::log(2.0)).epsilon(1e-6));
    run.output_gradient()[0] = 1;
    run.backward();
    CHECK(run.input_gradient("x")[0] == doctest::Approx(0.5).epsilon(1e-6));
    CHECK(run.input_gradient("x")[1] == doctest::Approx(-0.5).epsilon(1e-6));
  }
  Evaluation<smoothed_logits, Cpu<float>> smoothed(Rows{.tokens = 1});
  smoothed.indices("labels")[0] = 1;
  for (const float x : {0.0f, -1e5f, 1e20f, 3e38f}) {
    std::ranges::fill(smoothed.input("x"), x);
    smoothed.forward();
    CHECK(smoothed.output()[0] == doctest::Approx(std::log(33.0)).epsilon(1e-6));
  }
}

TEST_SUITE_END();
