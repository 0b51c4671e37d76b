// SPDX-License-Identifier: MIT
#include <simplx/train/schedule.hpp>
#include <simplx/train/trainer.hpp>

#include "support.hpp"

using namespace simplx;

// W trained directly, and W = U + beta V with V trained, are one trajectory [He & Hofmann 2024, App. A] if
//   SGD, heavy-ball too:  eta_W = beta^2 eta_V
//   Adam:                 eta_W = beta eta_V  and  epsilon_V = beta epsilon_W
// and if nothing else depends on the parameterisation, as clipping by the norm and decay towards zero do.

namespace {

constexpr double beta = 0.3;

/// A residual layer whose matrix is a parameter, or a sum of a fixed part and a trained one.
struct Net {
  bool split = false;
  constexpr Expr operator()() const {
    auto x = embedding(weight("embedding.weight", 16, 16, normal(0.5)), indices("tokens", Axis::tokens));
    auto matrix = split
                      ? fixed("base", 16, 16, normal(0.4)) + hyper("beta", beta) * weight("delta", 16, 16, normal(0.5))
                      : weight("matrix", 16, 16);
    auto h = x + relu(x * matrix);
    return cross_entropy(h * weight("head.weight", 16, 16, normal(0.5)), indices("labels", Axis::tokens));
  }
};
inline constexpr Net direct{}, split{.split = true};

TokenBatch some_batch(int seed) {
  TokenBatch batch;
  batch.offsets = {0, 20};
  for (std::size_t i = 0; i < 20; ++i) {
    batch.tokens.push_back(static_cast<std::int32_t>(bits(static_cast<std::uint64_t>(seed), i) % 16));
    batch.labels.push_back((batch.tokens.back() * 5 + 3) % 16);
  }
  return batch;
}

/// The largest difference of the two matrices, and of the embeddings that learn beside them, in 60 steps.
template <class Optimiser>
double distance(Optimiser optimiser, const ParameterGroup& delta, double clip = 0) {
  Trainer<direct, Cpu<double>> one({.batch = 1, .context = 20, .seed = 5, .clip = clip});
  Trainer<split, Cpu<double>> two({.batch = 1, .context = 20, .seed = 5, .clip = clip, .groups = {delta}});
  const TensorInfo* base = nullptr;
  for (const TensorInfo& tensor : two.tensors().constants) base = tensor.name == "base" ? &tensor : base;
  REQUIRE(base);
  const auto fixed_part = two.constants().subspan(static_cast<std::size_t>(base->offset), 256);
  const auto apart = [&] {
    double worst = 0;
    for (std::size_t i = 0; i < 256; ++i) {
      worst =
          std::max({worst, std::abs(one.parameter("matrix")[i] - (fixed_part[i] + beta * two.parameter("delta")[i])),
                    std::abs(one.parameter("embedding.weight")[i] - two.parameter("embedding.weight")[i])});
    }
    return worst;
  };
  for (std::size_t i = 0; i < 256; ++i) one.parameter("matrix")[i] = fixed_part[i] + beta * two.parameter("delta")[i];
  const std::vector<double> start(one.parameter("matrix").begin(), one.parameter("matrix").end());
  const CosineSchedule schedule{.peak = optimiser.learning_rate, .warmup = 5, .total = 60};
  double worst = 0;
  for (int step = 0; step < 60; ++step) {
    optimiser.learning_rate = schedule.at(step);
    one.step(some_batch(step), optimiser), two.step(some_batch(step), optimiser);
    worst = std::max(worst, apart());
  }
  double moved = 0;
  for (std::size_t i = 0; i < 256; ++i) moved = std::max(moved, std::abs(one.parameter("matrix")[i] - start[i]));
  CHECK(moved > 0.1);  // they went somewhere
  return worst;
}

constexpr double rounding = 1e-11, visible = 1e-4;

}  // namespace

TEST_SUITE_BEGIN("train/duality");

TEST_CASE("gradient descent: the rate goes with the square of beta, with momentum and schedule") {
  const ParameterGroup exact{.name = "delta", .learning_rate_factor = 1 / (beta * beta)};
  CHECK(distance(Sgd{.learning_rate = 0.3}, exact) < rounding);
  CHECK(distance(Sgd{.learning_rate = 0.05, .momentum = 0.9}, exact) < rounding);
  CHECK(distance(Sgd{.learning_rate = 0.05, .momentum = 0.9, .nesterov = true}, exact) < rounding);

  const Sgd heavy{.learning_rate = 0.05, .momentum = 0.9};
  CHECK(distance(heavy, {.name = "delta", .learning_rate_factor = 1 / beta}) > visible);  // Adam's ratio
  CHECK(distance(heavy, {.name = "delta", .learning_rate_factor = 1 / (beta * beta), .momentum = 0.8}) > visible);
  CHECK(distance(heavy, exact, 0.5) > visible);  // clipped: the norms differ
  CHECK(distance(Sgd{.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 0.1}, exact) >
        visible);  // V to 0 is W to U
}

TEST_CASE("Adam: the rate goes with beta, and so does epsilon") {
  const AdamW adam{.learning_rate = 0.02, .epsilon = 1e-3, .weight_decay = 0};
  const ParameterGroup exact{.name = "delta", .learning_rate_factor = 1 / beta, .epsilon = beta * 1e-3};
  CHECK(distance(adam, exact) < rounding);

  CHECK(distance(adam, {.name = "delta", .learning_rate_factor = 1 / beta}) > visible);  // one epsilon for both
  CHECK(distance(adam, {.name = "delta", .learning_rate_factor = 1 / (beta * beta), .epsilon = beta * 1e-3}) > visible);
  CHECK(distance(adam, {.name = "delta", .epsilon = beta * 1e-3}) > visible);
  CHECK(distance(adam, exact, 0.5) > visible);
  AdamW decaying = adam;
  decaying.weight_decay = 0.1;
  CHECK(distance(decaying, exact) > visible);
}

TEST_SUITE_END();
