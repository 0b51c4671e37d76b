// SPDX-License-Identifier: MIT
#include <simplx/models/decoder.hpp>
#include <simplx/train/trainer.hpp>

#include <doctest/doctest.h>

using namespace simplx;

// The duality of App. A (duality_test.cpp) in whole models of the second paper: values and projections trained as they
// are, and as W0 + beta D with D trained from zero, take one trajectory of gradient descent if the rates differ by
// beta^2.

namespace {

constexpr double beta = 0.3;

constexpr Decoder decoder(BlockConfig block, bool split) {
  block.value_projection_bias = false;  // a reparameterised matrix has none
  const Projection projection =
      split ? reparameterised(orthogonal, fixed_at(1), fixed_at(beta)) : dense(orthogonal);
  block.value = block.projection = projection;
  return {.block = block, .vocab = 16, .width = 16, .heads = 2, .hidden = 24, .layers = 2, .context = 8};
}
inline constexpr Decoder direct = decoder(norm_former_resscale, false), split = decoder(norm_former_resscale, true);

/// The largest difference of any parameter, W0 + beta D standing for W, in 20 steps with heavy-ball momentum.
double distance(double factor, double clip = 0) {
  const TrainerOptions options{.batch = 1, .seed = 5, .clip = clip};
  TrainerOptions scaled = options;
  scaled.groups = {{.name = "*.delta", .learning_rate_factor = factor}};
  Trainer<direct, Cpu<double>> one(options);
  Trainer<split, Cpu<double>> two(scaled);
  const auto base = [&](const std::string& name) {
    for (const TensorInfo& tensor : two.tensors().constants) {
      if (tensor.name == name) return two.constants().subspan(static_cast<std::size_t>(tensor.offset), 256);
    }
    FAIL(name);
    return std::span<double>();
  };
  const auto matrix_of = [](const TensorInfo& tensor) {
    for (const char* of : {"value.weight", "projection.weight"}) {
      if (tensor.name.ends_with(of)) return tensor.name.substr(0, tensor.name.size() - 6);
    }
    return std::string();
  };
  for (const TensorInfo& tensor : one.tensors().parameters) {
    const std::string matrix = matrix_of(tensor);
    std::ranges::copy(matrix.empty() ? two.parameter(tensor.name) : base(matrix + "base"),
                      one.parameter(tensor.name).begin());
  }
  const std::vector<double> start(one.parameters().begin(), one.parameters().end());
  double apart = 0, moved = 0;
  for (std::uint64_t step = 0; step < 20; ++step) {
    TokenBatch batch{{}, {}, {0, 8}};
    for (std::uint64_t i = 0; i < 8; ++i) {
      batch.tokens.push_back(static_cast<std::int32_t>(bits(step, i) % 16));
      batch.labels.push_back((batch.tokens.back() * 5 + 3) % 16);
    }
    const Sgd optimiser{.learning_rate = 0.05, .momentum = 0.9};
    one.step(batch, optimiser), two.step(batch, optimiser);
    for (const TensorInfo& tensor : one.tensors().parameters) {
      const std::string matrix = matrix_of(tensor);
      const auto direct_values = one.parameter(tensor.name);
      const auto other = two.parameter(matrix.empty() ? tensor.name : matrix + "delta");
      for (std::size_t i = 0; i < other.size(); ++i) {
        const double value = matrix.empty() ? other[i] : base(matrix + "base")[i] + beta * other[i];
        apart = std::max(apart, std::abs(direct_values[i] - value));
        if (!matrix.empty()) {
          moved = std::max(moved, std::abs(direct_values[i] - start[static_cast<std::size_t>(tensor.offset) + i]));
        }
      }
    }
  }
  CHECK(moved > 1e-3);
  return apart;
}

}  // namespace

TEST_CASE("train/block_duality: NormFormer's values and projections, with momentum; not at Adam's ratio, not clipped") {
  CHECK(distance(1 / (beta * beta)) < 1e-11);
  CHECK(distance(1 / beta) > 1e-4);
  CHECK(distance(1 / (beta * beta), 0.05) > 1e-4);
}
