// SPDX-License-Identifier: MIT
#include <simplx/blocks/sas_p.hpp>

#include "three_layers.hpp"

using namespace simplx;

namespace {
struct Two {
  constexpr Expr operator()() const {
    return stack("blocks", 2, SasP{{2}, {24}}, variable("x", rows_of(Axis::tokens, 16)));
  }
};
inline constexpr Two two{};

inline constexpr test::ThreeLayers<SasP> equation{{{.heads = 2}, {24}}};
inline constexpr test::ThreeLayers<SasP> with_alibi{{{.heads = 2, .alibi = true}, {24}}};
inline constexpr test::ThreeLayers<SasPSkipInit> skip_init{{{.heads = 2}, {24}}};
inline constexpr test::ThreeLayers<SasPNoNorm> no_norm{{{.heads = 2}, {24}}};
inline constexpr test::ThreeLayers<SasPNormFree> norm_free{{{.heads = 2}, {24}}};
inline constexpr test::ThreeLayers<SasPReparam> reparam{{2, {24}}};
static_assert(same_graph<equation, test::token<sas_p>>());
static_assert(same_graph<with_alibi, test::token<sas_p_alibi>>());
static_assert(same_graph<skip_init, test::token<sas_p_skip_init>>());
static_assert(same_graph<no_norm, test::token<sas_p_no_norm>>());
static_assert(same_graph<norm_free, test::token<sas_p_norm_free>>());
static_assert(same_graph<reparam, test::token<sas_p_reparam_trainable>>());

// 2d^2 + 2dF + d + 3H + 2 a block, and d^2 + 2 for the first value.
static_assert(parameters<equation> == 3 * (2 * 256 + 2 * 16 * 24 + 16 + 3 * 2 + 2) + 256 + 2);
static_assert(parameters<no_norm> == parameters<norm_free> + 2 * 16);
static_assert(parameters<reparam> == parameters<equation> + (3 * 2 - 1) * (256 + 2));
static_assert(parameter_shape<two>("blocks.0.attention.value.delta") == fixed_shape(16, 16));
static_assert(!has_parameter<two>("blocks.1.attention.value.delta"));
static_assert(parameter_shape<two>("blocks.1.attention.gamma") == fixed_shape(1, 2));

/// Largest difference of the results when parameters are changed by `change`.
template <class Change>
double moves(const Change& change) {
  Evaluation<two> before(Rows{.tokens = 9}, 1, {4, 5}), after(Rows{.tokens = 9}, 1, {4, 5});
  for (auto* run : {&before, &after}) {
    test::fill_inputs(*run);
    for (const TensorInfo& tensor : run->tensors().parameters) {
      auto values = run->parameter(tensor.name);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] += 0.2 * normal(key_of(1, tensor.name), i);
    }
  }
  change(after);
  before.forward(), after.forward();
  double worst = 0;
  for (std::size_t i = 0; i < before.output().size(); ++i) {
    worst = std::max(worst, std::abs(before.output()[i] - after.output()[i]));
  }
  return worst;
}
}  // namespace

TEST_SUITE_BEGIN("blocks/sas_p");

TEST_CASE("at the beginning the attention branch passes the normalised input on: X_out = N + 0.1 MLP(N)") {
  Evaluation<two> run(Rows{.tokens = 9}, 1, {4, 5});
  test::fill_inputs(run);
  for (const char* layer : {"blocks.0", "blocks.1"}) {
    std::ranges::fill(run.parameter(std::string(layer) + ".mlp_gain"), 0.0);
  }
  run.forward();
  for (std::size_t row = 0; row < 9; ++row) {
    double squares = 0;
    for (std::size_t c = 0; c < 16; ++c) squares += run.input("x")[row * 16 + c] * run.input("x")[row * 16 + c];
    const double r = std::sqrt(squares / 16);
    for (std::size_t c = 0; c < 16; ++c) {
      CHECK(run.output()[row * 16 + c] == doctest::Approx(run.input("x")[row * 16 + c] / r).epsilon(1e-7));
    }
  }
}

TEST_CASE("a common factor of alpha, beta, gamma can move into the attention gain; a factor of one of them cannot") {
  const auto scaled = [](std::initializer_list<const char*> names, double factor, double gain) {
    return [=](auto& run) {
      for (const char* name : names) {
        for (double& x : run.parameter(std::string("blocks.1.attention.") + name)) x *= factor;
      }
      run.parameter("blocks.1.attention_gain")[0] *= gain;
    };
  };
  CHECK(moves(scaled({"alpha", "beta", "gamma"}, 2.0, 0.5)) < 1e-14);
  CHECK(moves(scaled({"alpha"}, 2.0, 0.5)) > 1e-3);
}

TEST_CASE("the input's scale does not matter, up to epsilon") {
  CHECK(moves([](auto& run) {
          for (double& x : run.input("x")) x *= 3;
        }) < 1e-6);
}

TEST_SUITE_END();
