// SPDX-License-Identifier: MIT
#include <simplx/models/encoder.hpp>

#include <simplx/blocks/crammed_bert.hpp>

#include "golden.hpp"

using namespace simplx;

namespace {

constexpr Encoder encoder(const BlockConfig& block) {
  return {.block = block, .vocab = 19, .width = 16, .heads = 2, .hidden = 24, .layers = 2, .context = 8};
}
inline constexpr Encoder sequential = encoder(bert_sas_p), learned = [] {
  Encoder model = encoder(bert_pre_ln);
  model.positions = Positions::learned;
  return model;
}();
constexpr Encoder windowed(const BlockConfig& block) {
  return {.block = block, .vocab = 7, .width = 12, .heads = 2, .hidden = 20, .layers = 2, .context = 9, .window = 4};
}
inline constexpr Encoder windowed_pre_ln = windowed(bert_pre_ln), windowed_sas_p = windowed(bert_sas_p);
inline constexpr Encoder closed_by_its_block = encoder(post_ln);
inline constexpr EncoderOf<BertSasP> equation{
    {{.heads = 2, .mask = Mask::full}, {24}, {}, 0.05}, 19, 16, 2, 8};
static_assert(same_graph<sequential, equation>());

static_assert(has_parameter<sequential>("embedding_norm.bias") && has_parameter<sequential>("final_norm.bias"));
static_assert(parameter_shape<sequential>("position.scale") == fixed_shape(1, 1));
static_assert(!has_parameter<learned>("position.scale") &&
              parameter_shape<learned>("position.weight") == fixed_shape(8, 16));
static_assert(!has_parameter<closed_by_its_block>("final_norm.gain"));

static_assert(detail::inverse_root(1) == 1 && detail::inverse_root(16) == 0.25 && detail::inverse_root(0.25) == 2);

}  // namespace

TEST_SUITE_BEGIN("models/encoder");

TEST_CASE("positions begin with a factor of 1 / sqrt(d), all norms with epsilon 1e-12") {
  Evaluation<sequential> run(Rows{.tokens = 4});
  CHECK(run.parameter("position.scale")[0] == 0.25);
  CHECK(!std::ranges::find(run.tensors().parameters, "position.scale", &TensorInfo::name)->decays);
  for (const char* name : {"embedding_norm.epsilon", "blocks.1.norm1.epsilon", "final_norm.epsilon"}) {
    CHECK(run.constant(name)[0] == 1e-12);
  }
  for (const double d : {2.0, 3.0, 128.0, 768.0, 1e6}) {
    CHECK(detail::inverse_root(d) == doctest::Approx(1 / std::sqrt(d)).epsilon(1e-15));
  }
}

TEST_CASE("where tokens see a window, logits, loss and every gradient agree with PyTorch") {
  test::agrees_with<windowed_pre_ln, Cpu<double>>("bert_pre_ln_window");
  test::agrees_with<windowed_sas_p, Cpu<double>>("bert_sas_p_window");
}

TEST_CASE("every token sees its whole sequence, and no other") {
  Evaluation<logits_of<sequential>> run(Rows{.tokens = 8}, 3, {5, 3});
  test::fill_inputs(run, 19);
  for (const TensorInfo& tensor : run.tensors().parameters) {
    auto values = run.parameter(tensor.name);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += 0.2 * normal(key_of(1, tensor.name), i);
  }
  run.forward();
  const std::vector<double> before(run.output().begin(), run.output().end());
  run.indices("tokens")[4] = (run.indices("tokens")[4] + 1) % 19;  // the last of the first sequence
  run.forward();
  for (std::size_t row = 0; row < 8; ++row) {
    const bool same = std::equal(before.begin() + row * 19, before.begin() + (row + 1) * 19,
                                 run.output().begin() + row * 19);
    CHECK(same == (row >= 5));
  }
}

TEST_CASE("only masked tokens carry a loss") {
  Evaluation<sequential> run(Rows{.tokens = 8}, 3, {5, 3});
  test::fill_inputs(run, 19);
  std::ranges::fill(run.indices("labels"), -100);
  run.indices("labels")[2] = 7;
  run.forward();
  for (std::size_t row = 0; row < 8; ++row) CHECK((run.output()[row] != 0) == (row == 2));
}

TEST_SUITE_END();
