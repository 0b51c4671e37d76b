// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/updates.cuh>

#include "cuda/kernels.hpp"

#include <simplx/train/adamw.hpp>
#include <simplx/train/sgd.hpp>

#include <cmath>
#include <limits>

using namespace simplx;
using namespace simplx::gpu;

namespace {

const std::vector<TensorInfo>& tensors() {
  static const std::vector<TensorInfo> all = [] {
    std::vector<TensorInfo> two(2);
    two[0].name = "w", two[0].shape = fixed_shape(1, 8), two[0].rank = 1, two[0].offset = 0;
    two[1].name = "still", two[1].shape = fixed_shape(1, 8), two[1].rank = 1, two[1].offset = alignment;
    return two;
  }();
  return all;
}
constexpr Index size = 2 * alignment;

/// Parameters of ones, and a gradient.
struct Trained {
  GpuStream stream;
  DeviceParameters<float, false> parameters{size};
  DeviceBuffer<float> gradient{size};

  Trained() { std::ranges::fill(parameters.host(stream), 1.0f); }
  void take(float g) {
    gradient.copy_from(std::vector<float>(size, g), stream);
    stream.synchronize();
  }
  /// A step with this gradient everywhere; the norm.
  template <class Optimiser>
  double step(DeviceUpdates<float>& updates, const Optimiser& optimiser, float g) {
    take(g);
    updates.run(stream, updates.lay_out(optimiser, stream, parameters, gradient.data()));
    stream.synchronize();
    return updates.totals().host()[1];
  }
};

DeviceUpdates<float> made(const GpuStream& stream, double clip, const char* frozen = "still") {
  DeviceUpdates<float> updates(tensors(), size,
                               TrainerOptions{.clip = clip, .groups = {{.name = frozen, .learning_rate_factor = 0}}});
  updates.clear_loss(stream);
  return updates;
}

}  // namespace

TEST_SUITE_BEGIN("cuda/updates");

TEST_CASE("a step clips, leaves what is frozen alone, and clears the gradient") {
  Trained trained;
  DeviceUpdates<float> updates = made(trained.stream, 1);
  const double norm = trained.step(updates, Sgd{.learning_rate = 0.5}, 2);
  CHECK(norm == doctest::Approx(2 * std::sqrt(static_cast<double>(alignment))));  // of the first run alone
  const auto parameters = trained.parameters.host(trained.stream);
  CHECK(parameters[0] == doctest::Approx(1 - 0.5 * 2 / norm));
  CHECK(parameters[alignment] == 1);
  std::vector<float> gradient(size);
  trained.gradient.copy_to(gradient, trained.stream);
  trained.stream.synchronize();
  CHECK(gradient == std::vector<float>(size));
}

TEST_CASE("moments are of one optimiser, begin anew with another, and are seen on the host") {
  Trained trained;
  DeviceUpdates<float> updates = made(trained.stream, 0);
  const Sgd sgd{.learning_rate = 0, .momentum = 0.5};
  CHECK(!updates.has_room<Sgd>());
  for (const float expected : {1.0f, 1.5f}) {
    trained.step(updates, sgd, 1);
    updates.took(sgd);
    CHECK(updates.first_moments(trained.stream)[3] == expected);
  }
  CHECK(updates.has_room<Sgd>());
  trained.step(updates, AdamW{.learning_rate = 0, .beta1 = 0.75}, 1);
  updates.took(AdamW{});
  CHECK(updates.first_moments(trained.stream)[3] == 0.25f);
  CHECK(updates.second_moments(trained.stream)[3] > 0);
  CHECK(updates.count().steps == 3);
  CHECK(updates.count().moment_steps == 1);
  updates.restore({"adamw", 7, 5});
  CHECK(updates.count().step_of("adamw") == 6);
}

TEST_CASE("of a gradient that is not finite the first tensor is told, and nothing is updated") {
  Trained trained;
  DeviceUpdates<float> updates = made(trained.stream, 1);
  const double norm = trained.step(updates, AdamW{}, std::numeric_limits<float>::infinity());
  CHECK(!std::isfinite(norm));
  CHECK(updates.first_broken_gradient(tensors(), trained.stream, trained.gradient.data(), 1) == "w");
  CHECK(trained.parameters.host(trained.stream)[0] == 1);
  const DeviceUpdates<float> without_first = made(trained.stream, 1, "w");
  CHECK(without_first.first_broken_gradient(tensors(), trained.stream, trained.gradient.data(), 1) == "still");
}

TEST_SUITE_END();
