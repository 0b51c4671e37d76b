// SPDX-License-Identifier: MIT
#include <simplx/models/decoder.hpp>

#include <simplx/blocks/block.hpp>

#include "golden.hpp"

using namespace simplx;
using test::agrees_with, test::with_logits;

namespace {

/// The sizes of parity.md, and sizes that fit no vector.
constexpr Decoder regular(const BlockConfig& block) {
  return {.block = block, .vocab = 61, .width = 32, .heads = 4, .hidden = 128, .layers = 3, .context = 16};
}
constexpr Decoder odd(const BlockConfig& block, int heads = 2) {
  return {.block = block, .vocab = 7, .width = 12, .heads = heads, .hidden = 20, .layers = 2, .context = 16};
}
inline constexpr Decoder golden_pre_ln = regular(pre_ln), golden_sas_p = regular(sas_p);
inline constexpr Decoder odd_pre_ln = odd(pre_ln), odd_sas_p = odd(sas_p), odd_v_skip_init = odd(v_skip_init),
                         odd_reparam = odd(shaped_reparam), odd_leaky = odd(sas_no_mlp_skip),
                         odd_no_norm = odd(sas_no_norm);
inline constexpr Decoder three_sas_p = odd(sas_p_alibi, 3), three_pre_ln = odd(pre_ln_alibi, 3);
constexpr Decoder windowed(const BlockConfig& block) {
  Decoder model = odd(block);
  model.window = 4;
  return model;
}
inline constexpr Decoder windowed_pre_ln = windowed(pre_ln), windowed_sas_p = windowed(sas_p_alibi);

inline constexpr Decoder small{
    .block = sas_p, .vocab = 32, .width = 32, .heads = 2, .hidden = 64, .layers = 3, .context = 24};
inline constexpr Decoder learned{
    .block = pre_ln, .vocab = 32, .width = 32, .heads = 2, .layers = 2, .context = 24, .positions = Positions::learned};
inline constexpr Decoder seen{
    .block = sas_p, .vocab = 32, .width = 32, .heads = 2, .hidden = 64, .layers = 3, .context = 24, .observed = true};
inline constexpr DecoderOf<ConfiguredBlock> with_block{
    .block = {.config = pre_ln, .heads = 2}, .vocab = 32, .width = 32, .layers = 2, .context = 24,
    .positions = Positions::learned, .position_rows = 26, .scaled_embedding = true};
inline constexpr Decoder with_token{.block = pre_ln, .vocab = 32, .width = 32, .heads = 2, .layers = 2, .context = 24,
                                    .positions = Positions::learned, .position_rows = 26, .scaled_embedding = true};
static_assert(same_graph<with_block, with_token>() && !same_graph<with_block, learned>());
static_assert(parameter_shape<with_block>("position.weight") == fixed_shape(26, 32));

}  // namespace

TEST_SUITE_BEGIN("models/decoder");

TEST_CASE("logits, loss and every gradient agree with PyTorch") {
  agrees_with<golden_pre_ln, Cpu<double>>("pre_ln");
  agrees_with<golden_sas_p, Cpu<double>>("sas_p");
  agrees_with<golden_sas_p, Cpu<double, Path::reference>>("sas_p");
}

TEST_CASE("the same at widths that are no multiples of a vector") {
  agrees_with<odd_pre_ln, Cpu<double>>("pre_ln_odd");
  agrees_with<odd_sas_p, Cpu<double>>("sas_p_odd");
  agrees_with<odd_v_skip_init, Cpu<double>>("v_skip_init_odd");
  agrees_with<odd_reparam, Cpu<double>>("shaped_reparam_odd");
  agrees_with<odd_leaky, Cpu<double>>("sas_no_mlp_skip_odd");
  agrees_with<odd_no_norm, Cpu<double>>("sas_no_norm_odd");
}

TEST_CASE("the same for three heads with ALiBi, whose slopes follow another rule") {
  agrees_with<three_sas_p, Cpu<double>>("sas_p_alibi_three");
  agrees_with<three_pre_ln, Cpu<double>>("pre_ln_alibi_three");
}

TEST_CASE("the same where tokens see a window") {
  agrees_with<windowed_pre_ln, Cpu<double>>("pre_ln_window");
  agrees_with<windowed_pre_ln, Cpu<double, Path::reference>>("pre_ln_window");
  agrees_with<windowed_sas_p, Cpu<double>>("sas_p_alibi_window");
  static_assert(parameters<windowed_pre_ln> == parameters<odd_pre_ln> && !same_graph<windowed_pre_ln, odd_pre_ln>());
}

TEST_CASE("parameters have the names of checkpoints, and logits alone have the same ones") {
  static_assert(parameter_shape<small>("embedding.weight") == fixed_shape(32, 32));
  static_assert(parameter_shape<small>("blocks.2.mlp.up.weight") == fixed_shape(32, 64));
  static_assert(parameter_shape<learned>("position.weight") == fixed_shape(24, 32));
  static_assert(has_parameter<small>("final_norm.gain") && !has_parameter<small>("position.weight"));
  const auto loss = tensors_of<small>().parameters, logits = tensors_of<logits_of<small>>().parameters;
  REQUIRE(loss.size() == logits.size());
  for (std::size_t i = 0; i < loss.size(); ++i) {
    CHECK(loss[i].name == logits[i].name);
    CHECK(loss[i].offset == logits[i].offset);
  }
}

TEST_CASE("a later token changes nothing that comes before it, bit for bit") {
  Evaluation<with_logits<small>, Cpu<float>> run(Rows{.tokens = 24});
  test::fill_inputs(run, 32);
  for (const TensorInfo& tensor : run.tensors().parameters) {
    auto values = run.parameter(tensor.name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] += static_cast<float>(0.2 * normal(key_of(1, tensor.name), i));
    }
  }
  run.forward();
  const std::vector<float> before(run.output(1).begin(), run.output(1).end());
  run.indices("tokens")[17] ^= 1;
  run.forward();
  CHECK(std::equal(before.begin(), before.begin() + 17 * 32, run.output(1).begin()));
  CHECK(!std::equal(before.begin() + 17 * 32, before.begin() + 18 * 32, run.output(1).begin() + 17 * 32));
  CHECK(!std::equal(before.begin() + 23 * 32, before.end(), run.output(1).begin() + 23 * 32));
  // The first token sees only itself: queries and keys do not matter to it.
  const std::vector<float> first(run.output(1).begin(), run.output(1).begin() + 32);
  for (float& x : run.parameter("blocks.1.attention.query.weight")) x *= 3;
  run.forward();
  for (std::size_t i = 0; i < 32; ++i) CHECK(run.output(1)[i] == doctest::Approx(first[i]).epsilon(1e-5));
}

TEST_CASE("step-0 gradients of SAS-P: keys learn nothing, queries do, beta and gamma move apart, the value learns") {
  Evaluation<small> run(Rows{.tokens = 24});
  test::fill_inputs(run, 32);
  run.forward();
  std::ranges::fill(run.output_gradient(), 1.0 / 24);
  run.backward();
  const auto largest = [&](const char* name) {
    double most = 0;
    for (const double g : run.gradient(name)) most = std::max(most, std::abs(g));
    return most;
  };
  CHECK(largest("blocks.0.attention.key.weight") == 0);
  CHECK(largest("blocks.0.attention.query.weight") > 1e-9);
  CHECK(largest("blocks.0.attention.value.beta") == 0);  // D is zero
  CHECK(largest("blocks.0.attention.value.delta") > 1e-9);
  for (std::size_t h = 0; h < 2; ++h) {
    const double beta = run.gradient("blocks.2.attention.beta")[h], gamma = run.gradient("blocks.2.attention.gamma")[h];
    CHECK(std::abs(beta + gamma) < 1e-13 * std::max(std::abs(beta), 1e-3));
    CHECK(beta != 0);
  }
}

TEST_CASE("the first loss is ln V + half the variance of the logits") {
  static constexpr Decoder wide{
      .block = pre_ln, .vocab = 512, .width = 256, .heads = 4, .hidden = 256, .layers = 1, .context = 64};
  Evaluation<wide, Cpu<float>> run(Rows{.tokens = 512, .sequences = 8}, 5);
  test::fill_inputs(run, 512);
  for (std::size_t i = 0; i < 512; ++i) run.indices("labels")[i] = static_cast<std::int32_t>(bits(77, i) % 512);
  run.forward();
  double loss = 0;
  for (const float row : run.output()) loss += static_cast<double>(row) / 512;
  CHECK(loss == doctest::Approx(std::log(512) + 0.5 * 256 * 0.0004).epsilon(0.01));  // ln 512 = 6.238, + 0.0512
}

TEST_CASE("an observed decoder computes the same, and shows the input of every block and the gradient there") {
  Evaluation<small> plain(tokens{7}, 3);
  Evaluation<seen> observed(tokens{7}, 3);
  const auto evaluate = [](auto& run) {
    test::fill_inputs(run, 32);
    run.forward();
    std::ranges::fill(run.output_gradient(), 1.0);
    run.backward();
  };
  evaluate(plain), evaluate(observed);
  const auto close = [](auto a, auto b) {
    return std::ranges::equal(a, b, [](double x, double y) { return std::abs(x - y) < 1e-12; });
  };
  CHECK(close(plain.output(), observed.output()));
  CHECK(close(plain.gradients(), observed.gradients()));
  std::vector<std::string> names;
  observed.each_probe([&](const std::string& name, const Shape& shape, const double* value, const double* gradient) {
    names.push_back(name);
    REQUIRE(shape.cols == 32);
    if (names.size() > 1) return;
    for (std::size_t t = 0; t < 7; ++t) {  // a sinusoid stands where the token is; both wait for the first block
      const auto token = static_cast<std::size_t>(observed.indices("tokens")[t]);
      for (std::size_t c = 0; c < 32; ++c) {
        const double input =
            observed.parameter("embedding.weight")[token * 32 + c] + observed.constant("position.table")[t * 32 + c];
        REQUIRE(value[t * 32 + c] == doctest::Approx(input).epsilon(1e-12));
      }
    }
    CHECK(std::ranges::any_of(std::span(gradient, 7 * 32), [](double g) { return g != 0; }));
  });
  CHECK(names == std::vector<std::string>{"blocks.0.input", "blocks.1.input", "blocks.2.input"});
}

TEST_SUITE_END();
