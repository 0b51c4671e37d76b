// SPDX-License-Identifier: MIT
#include <simplx/nn/norm.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
inline constexpr test::OnTokens<RmsNorm> rms{6, {.epsilon = 1e-5}};
inline constexpr test::OnTokens<LayerNorm> layer{6};
inline constexpr test::OnTokens<RmsNormInside> inside{6, {.epsilon = 0.5}};
static_assert(parameters<inside> == 6 && parameters<rms> == 6 && parameters<layer> == 12);
}  // namespace

TEST_CASE("nn/norm: gains start at one, biases at zero, epsilon is a hyper-parameter with its default") {
  Evaluation<layer> run(Rows{.tokens = 1});
  CHECK(std::ranges::count(run.parameter("gain"), 1.0) == 6);
  CHECK(std::ranges::count(run.parameter("bias"), 0.0) == 6);
  CHECK(run.constant("epsilon")[0] == 1e-5);
  Evaluation<rms> other(Rows{.tokens = 1});
  CHECK(other.constant("epsilon")[0] == 1e-5);
  for (const TensorInfo& tensor : run.tensors().parameters) CHECK(!tensor.decays);
}

TEST_CASE("nn/norm: epsilon inside and outside of the root") {
  const auto first = [](auto&& run) {
    std::ranges::fill(run.input("x"), 2.0);  // mean x^2 = 4
    run.forward();
    return run.output()[0];
  };
  CHECK(first(Evaluation<inside>(Rows{.tokens = 1})) == doctest::Approx(2 / std::sqrt(4.5)).epsilon(1e-15));
  CHECK(first(Evaluation<rms>(Rows{.tokens = 1})) == doctest::Approx(2 / (2 + 1e-5)).epsilon(1e-15));
}
