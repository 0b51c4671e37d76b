// SPDX-License-Identifier: MIT
#include <simplx/models/model_of.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace simplx;

static_assert(std::is_same_v<ModelOf<0>, Decoder>);
static_assert(std::is_same_v<ModelOf<static_cast<int>(std::size(all_blocks)) - 1>, Encoder>);

TEST_CASE("models/model_of: every named block has its model") {
  for (const NamedBlock& block : all_blocks) {
    const bool encoder = with_model_of(block, [&](const auto& model) {
      CHECK(model.block == block.config);
      return std::is_same_v<decltype(model), const Encoder&>;
    });
    CHECK(encoder == std::string(block.name).starts_with("bert_"));
  }
}
