// SPDX-License-Identifier: MIT
//
// What the second paper's blocks must do by construction, before any training.

#include "../blocks/three_layers.hpp"
#include "golden.hpp"

#include <simplx/train/batches.hpp>
#include <simplx/train/trainer.hpp>

using namespace simplx;
using test::largest_difference, test::token;

namespace {

const char* const layers[] = {"blocks.0.", "blocks.1.", "blocks.2."};

/// A run of nine tokens in two sequences; parameters lie away from where they start unless they are to stay.
template <auto const& model>
struct Run : Evaluation<model> {
  explicit Run(bool moved = true) : Evaluation<model>(Rows{.tokens = 9}, 1, {4, 5}) {
    test::fill_inputs(*this);
    if (moved) test::move_parameters(*this);
  }
  std::vector<double> result() {
    this->forward();
    return {this->output().begin(), this->output().end()};
  }
  void each(const std::string& name, auto change) {
    for (const std::string layer : layers) {
      for (double& x : this->parameter(layer + name)) change(x);
    }
  }
};

/// How far a change of parameters moves the result.
template <auto const& model>
double moves(auto prepare, auto change) {
  Run<model> before, after;
  for (auto* run : {&before, &after}) prepare(*run);
  change(after);
  return largest_difference(before.result(), after.result());
}
void without_epsilon(auto& run) {
  for (const TensorInfo& tensor : run.tensors().constants) run.constant(tensor.name)[0] = 0;
}

}  // namespace

TEST_SUITE_BEGIN("models/norm_former_properties");

TEST_CASE("three heads of four columns, which fit no vector, agree with PyTorch") {
  static constexpr Decoder odd{.block = norm_former_resscale_qkv_norm, .vocab = 7, .width = 12, .heads = 3,
                               .hidden = 20, .layers = 2, .context = 16};
  test::agrees_with<odd, Cpu<double>>("norm_former_resscale_qkv_norm_three");
}

TEST_CASE("head and residual scales do nothing at first, bit for bit") {
  Run<token<norm_former_resscale_both>> with(false);
  Run<token<norm_former_resscale_no_head_scale>> without(false);
  for (const TensorInfo& tensor : without.tensors().parameters) {
    CHECK(std::ranges::equal(with.parameter(tensor.name), without.parameter(tensor.name)));
  }
  CHECK(with.result() == without.result());
  with.parameter("blocks.1.attention.head_scale")[1] = 1.5;
  CHECK(with.result() != without.result());
}

TEST_CASE("after the attention's norm the size of the projection does not matter, and its gradient is orthogonal") {
  const auto unbiased = [](auto& run) {
    without_epsilon(run);
    run.each("attention.projection.bias", [](double& b) { b = 0; });
  };
  const auto larger = [](auto& run) { run.each("attention.projection.weight", [](double& w) { w *= 3; }); };
  CHECK(moves<token<norm_former>>(unbiased, larger) < 1e-11);
  CHECK(moves<token<norm_former>>([](auto&) {}, larger) > 1e-3);  // the bias is not scaled with it
  CHECK(moves<token<norm_former_resscale_no_post_attention_norm>>(unbiased, larger) > 1e-3);

  Run<token<norm_former>> run;
  unbiased(run);
  run.forward();
  for (std::size_t i = 0; i < run.output_gradient().size(); ++i) run.output_gradient()[i] = normal(3, i);
  run.backward();
  for (const std::string layer : layers) {
    const auto w = run.parameter(layer + "attention.projection.weight");
    const auto g = run.gradient(layer + "attention.projection.weight");
    double along = 0, sizes = 0;
    for (std::size_t i = 0; i < w.size(); ++i) along += w[i] * g[i], sizes += std::abs(w[i] * g[i]);
    CHECK(std::abs(along) < 1e-12 * sizes);
    CHECK(sizes > 1e-3);
  }
}

TEST_CASE("after the MLP's norm the size of what squared ReLU activates does not matter; with GELU it does") {
  const auto larger = [](auto& run) {
    for (const char* name : {"mlp.up.weight", "mlp.up.bias"}) run.each(name, [](double& w) { w *= 3; });
  };
  const auto exact = [](auto& run) { without_epsilon(run); };
  CHECK(moves<token<norm_former_relu2>>(exact, larger) < 1e-11);
  CHECK(moves<token<norm_former>>(exact, larger) > 1e-3);
}

TEST_CASE("norms of queries and keys remove the sizes of their matrices") {
  const auto prepare = [](auto& run) {
    without_epsilon(run);
    for (const char* name : {"attention.query.bias", "attention.key.bias"}) run.each(name, [](double& b) { b = 0; });
  };
  const auto larger = [](auto& run) {
    run.each("attention.query.weight", [](double& w) { w *= 3; });
    run.each("attention.key.weight", [](double& w) { w *= 0.5; });
  };
  CHECK(moves<token<norm_former_resscale_qkv_norm>>(prepare, larger) < 1e-11);
  CHECK(moves<token<norm_former_resscale>>(prepare, larger) > 1e-3);
}

TEST_CASE("a later token changes nothing that comes before it, bit for bit") {
  const auto holds = [](auto&& run) {
    const std::vector<double> before = run.result();
    run.input("x")[7 * 16 + 3] += 1;  // the fourth of five tokens of the second sequence
    const std::vector<double> after = run.result();
    CHECK(std::equal(before.begin(), before.begin() + 7 * 16, after.begin()));
    for (const std::size_t row : {7, 8}) CHECK(before[row * 16] != after[row * 16]);
  };
  holds(Run<token<norm_former_resscale_qkv_norm>>{});
  holds(Run<token<norm_former_relu2>>{});
  holds(Run<token<norm_former_resscale_both>>{});
}

TEST_CASE("where there is no gradient a step of AdamW makes matrices smaller and leaves all else as it is") {
  static constexpr Decoder model{.block = norm_former_resscale_both, .vocab = 31, .width = 16, .heads = 2,
                                 .hidden = 24, .layers = 2, .context = 8};
  Trainer<model, Cpu<double>> trainer({.batch = 1, .seed = 5});
  TokenBatch batch = make_batch(1, 8);
  for (int i = 0; i < 8; ++i) batch.tokens.push_back(i), batch.labels.push_back(ignored_label);
  batch.offsets = {0, 8};
  const std::vector<double> before(trainer.parameters().begin(), trainer.parameters().end());
  trainer.step(batch, AdamW{.learning_rate = 0.1, .weight_decay = 0.5});
  for (const TensorInfo& tensor : tensors_of<model>().parameters) {
    CAPTURE(tensor.name);
    const auto after = trainer.parameter(tensor.name);
    const double factor = tensor.name.ends_with(".weight") ? 1 - 0.1 * 0.5 : 1;
    bool holds = true;
    for (std::size_t i = 0; i < after.size(); ++i) {
      holds &= after[i] == doctest::Approx(factor * before[static_cast<std::size_t>(tensor.offset) + i]).epsilon(1e-15);
    }
    CHECK(holds);
  }
}

TEST_SUITE_END();
