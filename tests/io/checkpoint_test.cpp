// SPDX-License-Identifier: MIT
#include <simplx/io/checkpoint.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
inline constexpr Decoder model{.block = sas_p, .vocab = 8, .width = 8, .heads = 2, .layers = 2, .context = 4};
inline constexpr Decoder other{.block = pre_ln, .vocab = 9, .width = 8, .heads = 2, .layers = 2, .context = 4};
const std::filesystem::path path = std::filesystem::temp_directory_path() / "simplx_checkpoint_test.safetensors";
}  // namespace

TEST_SUITE_BEGIN("io/checkpoint");

TEST_CASE("what is saved in float or double comes back, under the names and shapes of checkpoints") {
  Evaluation<model, Cpu<float>> from(tokens{4}, 1);
  Evaluation<model, Cpu<double>> to(tokens{4}, 2);
  save_checkpoint(path, from.tensors().parameters, std::span<const float>(from.parameters()), {{"block", "sas_p"}});
  CHECK(load_checkpoint(path, to.tensors().parameters, to.parameters()).at("block") == "sas_p");
  CHECK(std::ranges::equal(from.parameters(), to.parameters(), [](float a, double b) { return static_cast<double>(a) == b; }));
  save_checkpoint(path, to.tensors().parameters, std::span<const double>(to.parameters()));
  const SafetensorsFile file = SafetensorsFile::read(path);
  CHECK(file.find("blocks.1.mlp_gain")->shape.empty());
  CHECK(file.find("final_norm.gain")->shape == std::vector<Index>{8});
  CHECK(file.find("blocks.0.mlp.down.weight")->shape == std::vector<Index>{32, 8});
  CHECK(file.find("blocks.0.mlp.down.weight")->dtype == Dtype::f64);
}

TEST_CASE("another model's checkpoint is refused with all that is wrong, and changes nothing") {
  Evaluation<model> from(tokens{4}, 1);
  Evaluation<other> to(tokens{4}, 2);
  save_checkpoint(path, from.tensors().parameters, std::span<const double>(from.parameters()));
  const std::vector<double> before(to.parameters().begin(), to.parameters().end());
  try {
    load_checkpoint(path, to.tensors().parameters, to.parameters());
    FAIL("it was accepted");
  } catch (const Error& error) {
    const std::string text = error.what();
    CHECK(text.find("missing: blocks.1.attention.projection.weight") != std::string::npos);
    CHECK(text.find("unexpected: blocks.0.attention.gamma") != std::string::npos);
    CHECK(text.find("embedding.weight is F64 [8, 8], the model needs floating point [9, 8]") != std::string::npos);
  }
  CHECK(std::ranges::equal(before, to.parameters()));
  std::filesystem::remove(path);
}

TEST_SUITE_END();
