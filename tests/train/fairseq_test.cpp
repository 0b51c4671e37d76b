// SPDX-License-Identifier: MIT
#include <simplx/train/fairseq.hpp>

#include <simplx/models/norm_former.hpp>
#include <simplx/train/recipes.hpp>
#include <simplx/train/trainer.hpp>

#include <doctest/doctest.h>

using namespace simplx;

namespace {
inline constexpr Decoder small{.block = norm_former_resscale, .vocab = 16, .width = 32, .heads = 4, .layers = 2};
}

TEST_SUITE_BEGIN("train/fairseq");

TEST_CASE("each tensor has its law, biases of the MLP that of their matrix") {
  const std::vector<TensorInfo> before = tensors_of<small>().parameters, after = as_in_fairseq(before);
  const auto law = [&](const char* name) {
    for (const TensorInfo& tensor : after) {
      if (tensor.name == name) return tensor.init;
    }
    FAIL(name);
    return Init{};
  };
  CHECK(law("embedding.weight") == normal(1 / std::sqrt(32.0)));
  for (const char* name : {"query", "key", "value"}) {
    CHECK(law(("blocks.1.attention." + std::string(name) + ".weight").c_str()) == uniform(std::sqrt(3.0 / 64)));
  }
  CHECK(law("blocks.0.attention.projection.weight") == uniform(std::sqrt(6.0 / 64)));
  for (const char* name : {"weight", "bias"}) {
    CHECK(law(("blocks.1.mlp.up." + std::string(name)).c_str()) == uniform(1 / std::sqrt(32.0)));
    CHECK(law(("blocks.1.mlp.down." + std::string(name)).c_str()) == uniform(1 / std::sqrt(128.0)));
  }
  CHECK(law("blocks.1.mlp.norm.gain") == ones);
  for (const char* name : {"query", "key", "value"}) {
    CHECK(law(("blocks.1.attention." + std::string(name) + ".bias").c_str()) == uniform(1 / std::sqrt(32.0)));
  }
  CHECK(law("blocks.1.attention.projection.bias") == zeros);
  CHECK(law("blocks.0.attention.head_scale") == ones);
  CHECK(law("final_norm.gain") == ones);
}

TEST_CASE("a trainer of NormFormer's recipe begins with these laws, one of another recipe with the model's") {
  const Recipe& recipe = recipes::norm_former_ablations;
  Trainer<small> fairseq(recipe.options({.batch = 1, .context = 8, .seed = 3})),
      plain(recipes::code_parrot.options({.batch = 1, .context = 8, .seed = 3}));
  const std::vector<TensorInfo> laws = as_in_fairseq(tensors_of<small>().parameters);
  std::vector<float> expected(fairseq.parameters().size());
  initialise(laws, 3, expected.data());
  CHECK(std::ranges::equal(fairseq.parameters(), expected));
  initialise(tensors_of<small>().parameters, 3, expected.data());
  CHECK(std::ranges::equal(plain.parameters(), expected));
  CHECK(fairseq.options().clip == 0);
  CHECK(plain.options().clip == 1);

  // By the numbers themselves: their bounds, and that the bounds are reached.
  const auto reaches = [&](const char* name, double bound) {
    double most = 0;
    for (const float x : fairseq.parameter(name)) most = std::max(most, std::abs(static_cast<double>(x)));
    CHECK(most <= bound);
    CHECK(most > 0.8 * bound);
  };
  reaches("blocks.1.attention.value.weight", std::sqrt(3.0 / 64));
  reaches("blocks.1.attention.projection.weight", std::sqrt(6.0 / 64));
  reaches("blocks.0.attention.key.bias", 1 / std::sqrt(32.0));
  reaches("blocks.0.mlp.down.weight", 1 / std::sqrt(128.0));
  double squares = 0;
  for (const float x : fairseq.parameter("embedding.weight")) squares += static_cast<double>(x) * x;
  CHECK(std::sqrt(squares / (16 * 32)) == doctest::Approx(1 / std::sqrt(32.0)).epsilon(0.1));
}

TEST_SUITE_END();
