// SPDX-License-Identifier: MIT
#include <simplx/models/tied_model.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
struct Plain {
  Positions positions = Positions::none;
  constexpr Expr operator()() const {
    return tied_model({5, 4, 1, 3, positions}, Identity{}, Linear{}, Identity{});
  }
};
struct Normed {
  constexpr Expr operator()() const {
    return tied_model({5, 4, 2, 3, Positions::scaled_sinusoidal}, LayerNorm{}, Linear{}, RmsNorm{});
  }
};
inline constexpr Plain plain{}, sinusoids{Positions::sinusoidal}, trained{Positions::learned},
    with_factor{Positions::scaled_sinusoidal};
/// A table of five positions for sequences of three, embeddings times sqrt(4), a head with a matrix of its own.
struct Longer {
  constexpr Expr operator()() const {
    return tied_model({.vocab = 5, .width = 4, .layers = 1, .context = 3, .positions = Positions::learned,
                        .position_rows = 5, .scaled_embedding = true},
                       Identity{}, Identity{}, Identity{});
  }
};
inline constexpr Normed normed{};
inline constexpr Longer longer{};
static_assert(parameter_shape<longer>("position.weight") == fixed_shape(5, 4));
static_assert(parameters<plain> == 5 * 4 + 4 * 4 && parameters<sinusoids> == parameters<plain>);
static_assert(parameters<trained> == parameters<plain> + 3 * 4 && parameters<with_factor> == parameters<plain> + 1);
static_assert(parameters<normed> == 5 * 4 + 2 * 4 * 4 + 1 + 2 * 4 + 4);
static_assert(has_parameter<normed>("embedding_norm.bias") && !has_parameter<normed>("final_norm.bias"));
}  // namespace

TEST_SUITE_BEGIN("models/tied_model");

TEST_CASE("the head is the embedding, transposed: x W E^T by hand") {
  Evaluation<plain> run(Rows{.tokens = 2});
  const auto e = run.parameter("embedding.weight"), w = run.parameter("blocks.0.weight");
  run.indices("tokens")[0] = 3, run.indices("tokens")[1] = 1;
  run.forward();
  for (const std::size_t word : {0, 4}) {
    double logit = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t j = 0; j < 4; ++j) logit += e[3 * 4 + i] * w[i * 4 + j] * e[word * 4 + j];
    }
    CHECK(run.output()[word] == doctest::Approx(logit).epsilon(1e-14));
  }
}

TEST_CASE("positions are added with their factor, in each sequence from the first row on") {
  Evaluation<with_factor> run(Rows{.tokens = 4}, 3, {3, 1});
  Evaluation<sinusoids> whole(Rows{.tokens = 4}, 3, {3, 1});
  std::ranges::copy(run.parameter("embedding.weight"), whole.parameter("embedding.weight").begin());
  std::ranges::copy(run.parameter("blocks.0.weight"), whole.parameter("blocks.0.weight").begin());
  CHECK(run.parameter("position.scale")[0] == 0.5);  // 1 / sqrt(4)
  run.forward(), whole.forward();
  CHECK(run.output()[0] != whole.output()[0]);
  CHECK(run.output()[0] == run.output()[3 * 5]);
  run.parameter("position.scale")[0] = 1;
  run.forward();
  for (std::size_t i = 0; i < 4 * 5; ++i) CHECK(run.output()[i] == doctest::Approx(whole.output()[i]).epsilon(1e-14));
}

TEST_CASE("embeddings times sqrt(d), and positions of a longer table, by hand") {
  Evaluation<longer> run(Rows{.tokens = 3}, 3, {2, 1});
  const auto e = run.parameter("embedding.weight"), p = run.parameter("position.weight");
  const std::int32_t tokens[] = {4, 2, 1};
  std::ranges::copy(tokens, run.indices("tokens").begin());
  run.forward();
  for (std::size_t row = 0; row < 3; ++row) {
    const auto token = static_cast<std::size_t>(tokens[row]), place = row % 2;
    for (std::size_t word = 0; word < 5; ++word) {
      double logit = 0;
      for (std::size_t c = 0; c < 4; ++c) logit += (2 * e[token * 4 + c] + p[place * 4 + c]) * e[word * 4 + c];
      CHECK(run.output()[row * 5 + word] == doctest::Approx(logit).epsilon(1e-13));
    }
  }
}

TEST_CASE("gradients of all parts: lookups, the factor of positions, both norms, the head") {
  test::check_model<longer>({}, {3, 1});
  const auto check = [](auto backend) {
    Evaluation<normed, decltype(backend)> run(Rows{.tokens = 4}, 3, {3, 1});
    test::fill_inputs(run, 5);
    const GradientReport report = check_gradients(run, {.step = 1e-3});
    CAPTURE(report.worst_name);
    CHECK(report.worst < 1e-7);
  };
  check(Cpu<double>{});
  check(Cpu<double, Path::reference>{});
}

TEST_SUITE_END();
