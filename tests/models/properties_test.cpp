// SPDX-License-Identifier: MIT
//
// What the first paper's blocks must do by construction, before any training.

#include <simplx/models/decoder.hpp>

#include "../blocks/three_layers.hpp"
#include "golden.hpp"

#include <simplx/blocks/parallel.hpp>
#include <simplx/blocks/pre_ln.hpp>
#include <simplx/blocks/sas.hpp>
#include <simplx/train/batches.hpp>
#include <simplx/train/trainer.hpp>

using namespace simplx;
using test::magnitude, test::largest_difference;

namespace {

constexpr Decoder decoder(const BlockConfig& block, int layers = 3) {
  return {.block = block, .vocab = 31, .width = 32, .heads = 4, .hidden = 64, .layers = layers, .context = 16};
}

/// A run of 16 tokens; loss and gradients of their mean loss.
template <auto const& model>
struct Run {
  Evaluation<test::with_logits<model>> run{Rows{.tokens = 16}, 5};
  double loss = 0;

  Run() {
    test::fill_inputs(run, 31);
    run.forward();
    const auto labelled =
        static_cast<double>(std::ranges::count_if(run.indices("labels"), [](int y) { return y >= 0; }));
    for (const double row : run.output(0)) loss += row / labelled;
    std::ranges::fill(run.output_gradient(0), 1 / labelled);
    std::ranges::fill(run.output_gradient(1), 0.0);
    run.backward();
  }
  std::span<double> gradient(const char* name) { return run.gradient(name); }
};

}  // namespace

TEST_SUITE_BEGIN("models/properties");

TEST_CASE("SAS and SAS-P begin as one function: exactly without norms, up to epsilon with them; only queries differ") {
  const auto compare = [](auto& sequential, auto& parallel, double tolerance) {
    CHECK(std::abs(sequential.loss - parallel.loss) < tolerance);
    CHECK(largest_difference(sequential.run.output(1), parallel.run.output(1)) < tolerance);
    for (const char* name : {"embedding.weight", "blocks.1.mlp.up.weight", "blocks.2.mlp.down.weight"}) {
      CHECK(largest_difference(sequential.gradient(name), parallel.gradient(name)) <
            tolerance * magnitude(parallel.gradient(name)) + 1e-16);
    }
    const auto query =
        sequential.gradient("blocks.1.attention.query.weight");  // SAS sends its gradient through the MLP too
    CHECK(largest_difference(query, parallel.gradient("blocks.1.attention.query.weight")) > 1e-3 * magnitude(query));
  };
  static constexpr Decoder no_norm = decoder(sas_no_norm), p_no_norm = decoder(sas_p_no_norm);
  Run<no_norm> a;
  Run<p_no_norm> b;
  compare(a, b, 1e-14);
  static constexpr Decoder normed = decoder(sas), p_normed = decoder(sas_p);
  Run<normed> c;
  Run<p_normed> d;
  compare(c, d, 3 * 1e-8 * 10);  // epsilon 1e-8 in each of three layers, r about 1
  CHECK(largest_difference(c.run.output(1), d.run.output(1)) > 0);
}

TEST_CASE("SAS's attention is the identity at first, whatever the keys, and is not where queries are not zero") {
  static constexpr test::ThreeLayers<Sas> blocks{{{.heads = 2, .alibi = true}, {24}}};
  Evaluation<blocks> run(Rows{.tokens = 9}, 1, {4, 5});
  test::fill_inputs(run);
  for (const char* layer : {"blocks.0", "blocks.1", "blocks.2"}) run.parameter(std::string(layer) + ".mlp_gain")[0] = 0;
  run.forward();
  const std::vector<double> once(run.output().begin(), run.output().end());
  for (double& key : run.parameter("blocks.1.attention.key.weight")) key += 0.3;
  run.forward();
  CHECK(largest_difference(run.output(), once) < 1e-14);
  for (std::size_t row = 0; row < 9; ++row) {  // Norm(Norm(Norm(x))) is left
    double squares = 0;
    for (std::size_t c = 0; c < 16; ++c) squares += run.output()[row * 16 + c] * run.output()[row * 16 + c];
    CHECK(squares == doctest::Approx(16).epsilon(1e-6));
    const double ratio = run.output()[row * 16] / run.input("x")[row * 16];
    for (std::size_t c = 0; c < 16; ++c) {
      CHECK(run.output()[row * 16 + c] == doctest::Approx(ratio * run.input("x")[row * 16 + c]));
    }
  }
  run.parameter("blocks.1.attention.query.weight")[5] = 0.5;
  run.forward();
  CHECK(largest_difference(run.output(), once) > 1e-3);
}

TEST_CASE(
    "step-0 gradients with query and key biases: keys none, queries some, beta and gamma opposite; so they move") {
  static constexpr BlockConfig biased = [] {
    BlockConfig config = sas_p;
    config.query_key_bias = true;
    return config;
  }();
  static constexpr Decoder model = decoder(biased);
  Run<model> at_first;
  CHECK(magnitude(at_first.gradient("blocks.1.attention.key.weight")) == 0);
  CHECK(magnitude(at_first.gradient("blocks.1.attention.key.bias")) == 0);
  CHECK(magnitude(at_first.gradient("blocks.1.attention.query.weight")) > 1e-6);
  CHECK(magnitude(at_first.gradient("blocks.1.attention.query.bias")) > 1e-9);

  Trainer<model, Cpu<double>> trainer({.batch = 1, .seed = 5});
  TokenBatch batch = make_batch(1, 16);
  for (int i = 0; i < 16; ++i) batch.tokens.push_back(i), batch.labels.push_back((7 * i) % 31);
  batch.offsets = {0, 16};
  trainer.step(batch, AdamW{.learning_rate = 1e-2});
  for (std::size_t h = 0; h < 4; ++h) {
    const double beta = trainer.parameter("blocks.1.attention.beta")[h] - 1,
                 gamma = trainer.parameter("blocks.1.attention.gamma")[h] - 1;
    CHECK(std::abs(beta) == doctest::Approx(1e-2).epsilon(1e-2));
    CHECK(beta == doctest::Approx(-gamma).epsilon(1e-6));
  }
}

TEST_CASE("what comes before a changed token stays as it was, bit for bit, in every kind of block") {
  const auto holds = [](auto&& run) {
    test::fill_inputs(run);
    test::move_parameters(run);
    run.forward();
    const std::vector<double> before(run.output().begin(), run.output().end());
    run.input("x")[7 * 16 + 3] += 1;
    run.forward();
    CHECK(std::equal(before.begin(), before.begin() + 7 * 16, run.output().begin()));
    for (const std::size_t row : {7, 8, 11}) CHECK(run.output()[row * 16] != before[row * 16]);
    // The first token sees only itself: queries and keys do not matter to it.
    for (double& x : run.parameter("blocks.1.attention.query.weight")) x *= 3;
    run.forward();
    for (std::size_t c = 0; c < 16; ++c) CHECK(run.output()[c] == doctest::Approx(before[c]).epsilon(1e-12));
    CHECK(run.output()[5 * 16] != before[5 * 16]);
  };
  const Rows rows{.tokens = 12};
  holds(Evaluation<test::token<parallel>>(rows));
  holds(Evaluation<test::token<pre_ln_alibi>>(rows));
  holds(Evaluation<test::token<v_skip_init>>(rows));
  holds(Evaluation<test::token<sas_alibi>>(rows));
  holds(Evaluation<test::token<sas_p_no_norm>>(rows));
  holds(Evaluation<test::token<sas_no_mlp_skip>>(rows));
}

TEST_CASE("without mask and positions, a permutation of the tokens permutes the result; with ALiBi it does not") {
  static constexpr std::size_t order[] = {3, 0, 6, 1, 5, 2, 4};
  const auto distance = [](auto&& run) {
    test::fill_inputs(run);
    test::move_parameters(run);
    run.forward();
    const std::vector<double> x(run.input("x").begin(), run.input("x").end()),
        y(run.output().begin(), run.output().end());
    for (std::size_t row = 0; row < 7; ++row) {
      std::copy_n(x.begin() + order[row] * 16, 16, run.input("x").begin() + row * 16);
    }
    run.forward();
    double worst = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      worst = std::max(worst, std::abs(run.output()[i] - y[order[i / 16] * 16 + i % 16]));
    }
    return worst;
  };
  static constexpr test::ThreeLayers<Parallel> softmax{{{.heads = 2, .mask = Mask::full}, {24}}};
  static constexpr test::ThreeLayers<Sas> shaped{{{.heads = 2, .mask = Mask::full}, {24}}};
  static constexpr test::ThreeLayers<SasSkipInit> skip_init{{{.heads = 2, .mask = Mask::full}, {24}}};
  static constexpr test::ThreeLayers<Sas> alibi{{{.heads = 2, .alibi = true, .mask = Mask::full}, {24}}};
  const Rows rows{.tokens = 7};
  CHECK(distance(Evaluation<softmax>(rows)) < 1e-12);
  CHECK(distance(Evaluation<shaped>(rows)) < 1e-12);
  CHECK(distance(Evaluation<skip_init>(rows)) < 1e-12);
  CHECK(distance(Evaluation<alibi>(rows)) > 1e-3);
}

TEST_SUITE_END();
