// SPDX-License-Identifier: MIT
#include <simplx/train/initialise.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
inline constexpr Decoder sas_p_model{.block = sas_p, .vocab = 64, .width = 64, .heads = 4, .layers = 3, .context = 16};
inline constexpr Decoder pre_ln_model{
    .block = pre_ln, .vocab = 64, .width = 64, .heads = 4, .layers = 5, .context = 16};
}  // namespace

TEST_SUITE_BEGIN("train/initialise");

TEST_CASE("orthogonal matrices have orthonormal rows, or columns where those are fewer, whatever they are") {
  for (const auto& size : {std::pair<Index, Index>{48, 48}, {5, 9}, {9, 5}}) {
    const Index rows = size.first, cols = size.second;
    const TensorInfo tensor{"w", fixed_shape(rows, cols), 2, 0, orthogonal, true};
    std::vector<double> w(static_cast<std::size_t>(rows * cols)), other(w.size());
    initialise(tensor, 3, w.data());
    initialise(tensor, 4, other.data());
    CHECK(w != other);
    double worst = 0;
    const Index count = std::min(rows, cols), length = std::max(rows, cols);
    const auto at = [&](Index vector, Index i) {
      return w[static_cast<std::size_t>(rows <= cols ? vector * cols + i : i * cols + vector)];
    };
    for (Index a = 0; a < count; ++a) {
      for (Index b = 0; b < count; ++b) {
        double product = 0;
        for (Index i = 0; i < length; ++i) product += at(a, i) * at(b, i);
        worst = std::max(worst, std::abs(product - (a == b)));
      }
    }
    CHECK(worst < 1e-14);
  }
}

TEST_CASE("the identity; and normal numbers of variance one over the rows") {
  std::vector<double> w(64 * 256);
  initialise(TensorInfo{"w", fixed_shape(3, 3), 2, 0, identity, true}, 3, w.data());
  CHECK(std::vector(w.begin(), w.begin() + 9) == std::vector<double>{1, 0, 0, 0, 1, 0, 0, 0, 1});
  initialise(TensorInfo{"w", fixed_shape(64, 256), 2, 0, normal_by_rows, true}, 3, w.data());
  double squares = 0;
  for (const double x : w) squares += x * x;
  CHECK(std::sqrt(squares / (64 * 256)) == doctest::Approx(0.125).epsilon(0.03));
}

TEST_CASE("uniform numbers fill their interval evenly") {
  std::vector<double> w(64 * 256);
  initialise(TensorInfo{"w", fixed_shape(64, 256), 2, 0, uniform(0.5), true}, 3, w.data());
  const auto [least, most] = std::ranges::minmax(w);
  CHECK(least > -0.5);
  CHECK(least < -0.499);
  CHECK(most < 0.5);
  CHECK(most > 0.499);
  double squares = 0;
  for (const double x : w) squares += x * x;
  CHECK(squares / (64 * 256) == doctest::Approx(0.25 / 3).epsilon(0.03));
}

TEST_CASE("values depend on seed, name, layer and element, and on nothing else") {
  Evaluation<sas_p_model> a(tokens{4}, 7);
  Evaluation<pre_ln_model> b(tokens{4}, 7), c(tokens{4}, 8);
  for (const char* name : {"embedding.weight", "blocks.2.mlp.up.weight", "blocks.1.attention.key.weight"}) {
    CHECK(std::ranges::equal(a.parameter(name), b.parameter(name)));
    CHECK(!std::ranges::equal(b.parameter(name), c.parameter(name)));
  }
  CHECK(!std::ranges::equal(a.parameter("blocks.1.mlp.up.weight"), a.parameter("blocks.2.mlp.up.weight")));
  Evaluation<sas_p_model, Cpu<float>> narrow(tokens{4}, 7);
  CHECK(std::ranges::equal(a.parameters(), narrow.parameters(),
                           [](double x, float y) { return static_cast<float>(x) == y; }));
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

TEST_CASE("slopes of ALiBi: powers of two for 4 and 8 heads, every other one of 16 heads besides for 12") {
  const auto slopes = [](Index heads) {
    TensorInfo tensor;
    tensor.shape = fixed_shape(1, heads), tensor.init = alibi_slopes;
    std::vector<double> values(static_cast<std::size_t>(heads));
    initialise(tensor, 1, values.data());
    return values;
  };
  CHECK(slopes(1) == std::vector<double>{1.0 / 256});
  CHECK(slopes(4) == std::vector<double>{1.0 / 4, 1.0 / 16, 1.0 / 64, 1.0 / 256});
  const std::vector<double> eight{1.0 / 2, 1.0 / 4, 1.0 / 8, 1.0 / 16, 1.0 / 32, 1.0 / 64, 1.0 / 128, 1.0 / 256};
  CHECK(slopes(8) == eight);
  const std::vector<double> twelve = slopes(12), more{0.70710678118654757, 0.35355339059327379, 0.17677669529663689,
                                                      0.088388347648318447};
  CHECK(std::equal(eight.begin(), eight.end(), twelve.begin()));
  for (std::size_t h = 0; h < 4; ++h) CHECK(twelve[8 + h] == doctest::Approx(more[h]).epsilon(1e-15));
}

TEST_SUITE_END();
