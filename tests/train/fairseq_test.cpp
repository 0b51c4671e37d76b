// SPDX-License-Identifier: MIT
#include <simplx/train/fairseq.hpp>

#include <simplx/models/norm_former.hpp>

#include <doctest/doctest.h>

using namespace simplx;

namespace {
inline constexpr Decoder small{.block = norm_former_resscale, .vocab = 16, .width = 32, .heads = 4, .layers = 2};
}

TEST_CASE("train/fairseq: each tensor has its law, biases of the MLP that of their matrix") {
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
  CHECK(law("blocks.1.attention.query.bias") == zeros);
  CHECK(law("final_norm.gain") == ones);
}
