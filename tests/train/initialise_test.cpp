// SPDX-License-Identifier: MIT
#include <simplx/train/initialise.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
inline constexpr Decoder sas_p_model{.block = sas_p, .vocab = 64, .width = 64, .heads = 4, .layers = 3, .context = 16};
inline constexpr Decoder pre_ln_model{.block = pre_ln, .vocab = 64, .width = 64, .heads = 4, .layers = 5, .context = 16};
}  // namespace

TEST_SUITE_BEGIN("train/initialise");

TEST_CASE("values depend on seed, name, layer and element, and on nothing else") {
  Evaluation<sas_p_model> a(tokens{4}, 7);
  Evaluation<pre_ln_model> b(tokens{4}, 7), c(tokens{4}, 8);
  for (const char* name : {"embedding.weight", "blocks.2.mlp.up.weight", "blocks.1.attention.key.weight"}) {
    CHECK(std::ranges::equal(a.parameter(name), b.parameter(name)));
    CHECK(!std::ranges::equal(b.parameter(name), c.parameter(name)));
  }
  CHECK(!std::ranges::equal(a.parameter("blocks.1.mlp.up.weight"), a.parameter("blocks.2.mlp.up.weight")));
  Evaluation<sas_p_model, Cpu<float>> narrow(tokens{4}, 7);
  CHECK(std::ranges::equal(a.parameters(), narrow.parameters(), [](double x, float y) { return static_cast<float>(x) == y; }));
}

TEST_CASE("laws are those of the paper: N(0, 0.02^2), zero queries, beta_FF = 0.1, one for gains") {
  Evaluation<sas_p_model> run(tokens{4}, 7);
  double squares = 0;
  for (const double x : run.parameter("blocks.0.mlp.up.weight")) squares += x * x;
  CHECK(std::sqrt(squares / (64 * 256)) == doctest::Approx(0.02).epsilon(0.03));
  CHECK(std::ranges::count(run.parameter("blocks.0.attention.query.weight"), 0.0) == 64 * 64);
  CHECK(run.parameter("blocks.2.mlp_gain")[0] == 0.1);
  CHECK(run.parameter("blocks.2.attention_gain")[0] == 1);
  CHECK(std::ranges::count(run.parameter("blocks.2.attention.gamma"), 1.0) == 4);
  CHECK(std::ranges::count(run.parameter("blocks.0.attention.value.delta"), 0.0) == 64 * 64);
}

TEST_CASE("sinusoids: sine and cosine interleaved, each pair slower than the one before") {
  Evaluation<sas_p_model> run(tokens{4}, 7);
  const auto table = run.constant("position.table");
  CHECK(table[0] == 0);
  CHECK(table[1] == 1);
  CHECK(table[3 * 64] == doctest::Approx(std::sin(3)));
  CHECK(table[3 * 64 + 1] == doctest::Approx(std::cos(3)));
  CHECK(table[3 * 64 + 62] == doctest::Approx(std::sin(3 / std::pow(10000.0, 62.0 / 64))));
}

TEST_SUITE_END();
