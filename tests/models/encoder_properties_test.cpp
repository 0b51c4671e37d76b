// SPDX-License-Identifier: MIT
//
// What the blocks of the second family, Post-LN and the crammed BERT must do by construction, where all tokens of a
// sequence see each other; and what causal ones must do that norm_former_properties_test.cpp leaves to this file.

#include <simplx/models/encoder.hpp>

#include "../blocks/three_layers.hpp"

using namespace simplx;
using test::largest_difference, test::magnitude, test::token;

namespace {

/// Three layers that see the whole sequence.
template <BlockConfig config>
inline constexpr test::ThreeLayers<ConfiguredBlock> full{{config, 2, 24, Mask::full}};

const char* const layers[] = {"blocks.0.", "blocks.1.", "blocks.2."};

void each(auto& run, const std::string& name, auto change) {
  for (const std::string layer : layers) {
    for (double& x : run.parameter(layer + name)) change(x);
  }
}
std::vector<double> result(auto& run) {
  run.forward();
  return {run.output().begin(), run.output().end()};
}

}  // namespace

TEST_SUITE_BEGIN("models/encoder_properties");

TEST_CASE("without mask and positions, a permutation of a sequence's tokens permutes its results") {
  static constexpr std::size_t order[] = {3, 0, 4, 1, 2, 6, 5};  // of the first five, and of the last two
  const auto holds = [](auto&& run) {
    test::fill_inputs(run);
    test::move_parameters(run);
    const std::vector<double> x(run.input("x").begin(), run.input("x").end()), y = result(run);
    for (std::size_t row = 0; row < 7; ++row) {
      std::copy_n(x.begin() + order[row] * 16, 16, run.input("x").begin() + row * 16);
    }
    const std::vector<double> z = result(run);
    double worst = 0;
    for (std::size_t i = 0; i < y.size(); ++i) worst = std::max(worst, std::abs(z[i] - y[order[i / 16] * 16 + i % 16]));
    CHECK(worst < 1e-12 * magnitude(y));
    CHECK(largest_difference(y, z) > 1e-3);
  };
  const auto run = []<auto const& model>() { return Evaluation<model>(Rows{.tokens = 7}, 1, {5, 2}); };
  holds(run.template operator()<full<norm_former_resscale_qkv_norm>>());
  holds(run.template operator()<full<norm_former_resscale_both>>());
  holds(run.template operator()<full<post_ln>>());
  holds(run.template operator()<full<bert_pre_ln>>());
  holds(run.template operator()<full<bert_sas_p>>());
}

TEST_CASE("a later token changes nothing that comes before it, and the first token is not asked for its query") {
  const auto holds = [](auto&& run) {
    test::fill_inputs(run);
    test::move_parameters(run);
    const std::vector<double> before = result(run);
    run.input("x")[7 * 16 + 3] += 1;
    const std::vector<double> after = result(run);
    CHECK(std::equal(before.begin(), before.begin() + 7 * 16, after.begin()));
    for (const std::size_t row : {7, 8}) CHECK(before[row * 16] != after[row * 16]);
    each(run, "attention.query.weight", [](double& w) { w *= 3; });
    const std::vector<double> asked = result(run);
    for (const std::size_t row : {0, 4}) {  // the first of both sequences
      const auto first = std::span(asked).subspan(row * 16, 16), then = std::span(after).subspan(row * 16, 16);
      CHECK(largest_difference(first, then) < 1e-12);
    }
    CHECK(std::abs(asked[6 * 16] - after[6 * 16]) > 1e-6);
  };
  const auto run = []<auto const& model>() { return Evaluation<model>(Rows{.tokens = 9}, 1, {4, 5}); };
  holds(run.template operator()<token<post_ln>>());
  holds(run.template operator()<token<pre_ln_biased>>());
  holds(run.template operator()<token<norm_former_after_projection>>());
}

TEST_CASE("NormFormer is the identity where the last factors of its branches are zero, whatever else they do") {
  Evaluation<full<norm_former_resscale>> run(Rows{.tokens = 9}, 1, {4, 5});
  test::fill_inputs(run);
  test::move_parameters(run);
  for (const char* name : {"attention.norm.gain", "attention.norm.bias", "mlp.down.weight", "mlp.down.bias"}) {
    each(run, name, [](double& x) { x = 0; });
  }
  each(run, "mlp_residual_scale", [](double& x) { x = 1; });
  CHECK(std::ranges::equal(result(run), run.input("x")));
  run.parameter("blocks.1.attention.norm.bias")[2] = 0.5;  // and a bias is added to every token alike
  const std::vector<double> shifted = result(run);
  for (std::size_t i = 0; i < shifted.size(); ++i) CHECK(shifted[i] == run.input("x")[i] + (i % 16 == 2 ? 0.5 : 0));
}

TEST_CASE("with queries of zero tokens see the mean of their sequence: skips keep them apart, else they are one") {
  const auto attend_evenly = [](auto& run) {
    test::fill_inputs(run);
    test::move_parameters(run);
    each(run, "attention.query.weight", [](double& x) { x = 0; });
    each(run, "mlp.down.weight", [](double& x) { x = 0; });
  };
  // Differences within a sequence; the second begins at row 4.
  const auto differences = [](std::span<const double> y) {
    std::vector<double> result;
    for (std::size_t row = 1; row < 9; ++row) {
      const std::size_t first = row < 4 ? 0 : 4;
      for (std::size_t c = 0; c < 16; ++c) result.push_back(y[row * 16 + c] - y[first * 16 + c]);
    }
    return result;
  };
  {  // attention adds one row to all tokens of a sequence: their differences stay
    Evaluation<full<norm_former>> run(Rows{.tokens = 9}, 1, {4, 5});
    attend_evenly(run);
    each(run, "attention.query.bias", [](double& x) { x = 0; });
    each(run, "mlp.down.bias", [](double& x) { x = 0; });
    const std::vector<double> y = result(run);
    CHECK(largest_difference(differences(y), differences(run.input("x"))) < 1e-13);
    CHECK(largest_difference(y, run.input("x")) > 0.1);
  }
  {  // plain attention without skips: rank one in each sequence after one layer
    static constexpr BlockConfig skipless = [] {
      BlockConfig config = bert_pre_ln;
      config.attention_skip = no_skip;
      return config;
    }();
    Evaluation<full<skipless>> run(Rows{.tokens = 9}, 1, {4, 5});
    attend_evenly(run);
    const std::vector<double> y = result(run);
    CHECK(magnitude(differences(y)) < 1e-13 * magnitude(y));
    CHECK(std::abs(y[0] - y[4 * 16]) > 1e-3);  // of another sequence
  }
  {  // shaped attention subtracts that mean: what is left is the normalised token, exactly
    static constexpr BlockConfig identity_values = [] {
      BlockConfig config = bert_sas;
      config.first_value = false;
      return config;
    }();
    Evaluation<full<identity_values>> run(Rows{.tokens = 9}, 1, {4, 5});
    test::fill_inputs(run);
    each(run, "attention.key.weight", [](double& x) { x += 0.3; });
    each(run, "mlp_gain", [](double& x) { x = 0; });
    const std::vector<double> y = result(run);
    CHECK(magnitude(differences(y)) > 1);
    for (std::size_t row = 0; row < 9; ++row) {
      const Eigen::Map<const Eigen::Array<double, 16, 1>> x(run.input("x").data() + row * 16), out(&y[row * 16]);
      const auto centred = (x - x.mean()).eval();
      CHECK((out - centred / std::sqrt(centred.square().mean())).abs().maxCoeff() < 1e-10);
    }
    run.parameter("blocks.1.attention.query.weight")[5] = 0.5;
    CHECK(largest_difference(result(run), y) > 1e-3);
  }
}

TEST_CASE("the encoders of SAS and SAS-P begin as one function, whatever lies in a batch") {
  static constexpr Encoder one{.block = bert_sas, .vocab = 19, .width = 16, .heads = 2, .hidden = 24, .layers = 3,
                               .context = 8};
  static constexpr Encoder other = [] {
    Encoder model = one;
    model.block = bert_sas_p;
    return model;
  }();
  const auto logits = [](auto&& run) {
    test::fill_inputs(run, 19);
    return result(run);
  };
  const Rows rows{.tokens = 13};
  const std::vector<double> sequential = logits(Evaluation<logits_of<one>>(rows, 5, {8, 1, 4})),
                            parallel = logits(Evaluation<logits_of<other>>(rows, 5, {8, 1, 4}));
  CHECK(largest_difference(sequential, parallel) < 1e-10);  // epsilon is 1e-12
  CHECK(magnitude(sequential) > 0.05);
}

TEST_SUITE_END();
