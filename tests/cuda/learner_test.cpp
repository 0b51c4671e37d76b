// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/learner.cuh>

#include "cuda/kernels.hpp"
#include "cuda/on_cpu.hpp"

#include <simplx/ops/activation.hpp>
#include <simplx/ops/cross_entropy.hpp>
#include <simplx/ops/dropout.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/reduce.hpp>

#include <algorithm>
#include <limits>

using namespace simplx;

namespace {

inline constexpr auto classified = [] {
  const Expr x = dropout("mask", input("x", rows_of(Axis::batch, 8)), 0.25);
  const Expr h = relu(x * weight("up", 8, 16, normal(1)) + vector("bias", 16, zeros));
  return mean(cross_entropy(h * weight("down", 16, 4, normal(1)), indices("label", Axis::batch)));
};

LearnerOptions options() {
  return {.seed = 1, .clip = 0.5, .groups = {{.name = "bias", .learning_rate_factor = 2},
                                             {.name = "down", .weight_decay = 0.3}}};
}
void set(auto& learner, Index rows, std::uint64_t seed) {
  std::vector<int> labels;
  for (Index row = 0; row < rows; ++row) labels.push_back(static_cast<int>(bits(seed, static_cast<std::uint64_t>(row)) % 4));
  learner.template set<"x">(test::numbers<double>(rows * 8, seed)).template set<"label">(labels);
}
/// Steps of two optimisers over batches, one of another size, and what they say and leave.
template <class Net>
std::vector<double> trained(int from = 0, int to = 6, Net* already = nullptr) {
  Net own(options());
  Net& learner = already ? *already : own;
  std::vector<double> all;
  for (int step = from; step < to; ++step) {
    set(learner, step == 2 ? 5 : 12, static_cast<std::uint64_t>(step));
    all.push_back(static_cast<double>(learner.value()));  // without dropout, between steps with it
    const StepResult result = step == 4 ? learner.step(Sgd{.learning_rate = 0.1, .momentum = 0.9})
                                        : learner.step(AdamW{.learning_rate = 1e-2});
    all.insert(all.end(), {result.loss, result.gradient_norm});
  }
  const auto state = learner.state();
  const auto take = [&](auto numbers) { all.insert(all.end(), numbers.begin(), numbers.end()); };
  take(state.parameters), take(state.first_moments), take(state.second_moments);
  return all;
}
void check_close(const std::vector<double>& found, const std::vector<double>& exact, double tolerance) {
  REQUIRE(found.size() == exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(found[i] - exact[i]) <= tolerance * (1 + std::abs(exact[i])));
  }
}

template <Precision precision = Precision::float32>
using OnDevice = Learner<classified, Cuda<precision>>;

/// A gradient that is finite where the loss is not.
inline constexpr auto moved = [] { return sum(square(weight("w", 4, 4))) + input("by", fixed_shape(1, 1)); };

void check_loss_alone() {
  Learner<moved, Cuda<>> learner;
  const std::vector<float> before(learner.parameters().begin(), learner.parameters().end());
  const StepResult result = learner.set<"by">(std::numeric_limits<float>::infinity()).step(AdamW{});
  CHECK(!result.finite);
  CHECK(result.culprit == "loss");
  CHECK(result.gradient_norm > 0);
  CHECK(std::ranges::equal(before, learner.parameters()));
  CHECK(learner.steps() == 0);
  CHECK(learner.set<"by">(1.0f).step(AdamW{}).finite);
}

}  // namespace

TEST_SUITE_BEGIN("cuda/learner");

TEST_CASE("a loss that is not finite updates nothing, though its gradient is") {
  check_loss_alone();
#if !defined(__CUDACC__)
  emulation::coherent_memory = true;
  check_loss_alone();
  emulation::coherent_memory = false;
#endif
}

TEST_CASE("the mean of no rows is no number, and updates nothing") {
  OnDevice<> learner(options());
  const std::vector<float> before(learner.parameters().begin(), learner.parameters().end());
  set(learner, 0, 1);
  const StepResult result = learner.step(AdamW{});
  CHECK(std::isnan(result.loss));
  CHECK(!result.finite);
  CHECK(learner.steps() == 0);
  CHECK(std::ranges::equal(before, learner.parameters()));
}

#if !defined(__CUDACC__)
TEST_CASE("a step that finds no memory leaves the next one as it was") {
  Learner<moved, Cuda<>> learner, other;
  learner.set<"by">(std::numeric_limits<float>::infinity()).value_and_grad();
  const std::size_t taken = emulation::device().allocations.bytes(emulation::Memory::device);
  const std::size_t memory = std::exchange(emulation::device().memory, taken);
  CHECK_THROWS_WITH_AS(learner.update(AdamW{}), doctest::Contains("short of memory"), Error);
  emulation::device().memory = memory;
  CHECK(learner.set<"by">(1.0f).step(AdamW{}).finite);
  other.set<"by">(1.0f).step(AdamW{});
  CHECK(std::ranges::equal(learner.parameters(), other.parameters()));
}
#endif

TEST_CASE("steps are those of the CPU, masks of dropout included") {
  const auto exact = test::on_cpu(
      [](auto number) { return trained<Learner<classified, Cpu<decltype(number)>>>(); }, 0.0);
  check_close(test::same_bits([] { return trained<OnDevice<Precision::float64>>(); }), exact, 1e-11);
  check_close(trained<OnDevice<>>(), exact, 1e-4);
}

TEST_CASE("a training goes on from its state with the same bits") {
  OnDevice<> first(options()), second(options());
  trained<OnDevice<>>(0, 3, &first);
  second.restore(first.state());
  CHECK(second.steps() == 3);
  CHECK(trained<OnDevice<>>(3, 6, &second) == trained<OnDevice<>>(3, 6, &first));
}

TEST_CASE("what is not finite changes nothing and says which tensor, whether the loss shows it or the gradient alone") {
  OnDevice<> learner(options());
  set(learner, 3, 1);
  learner.step(AdamW{});
  const std::vector<float> before(learner.parameters().begin(), learner.parameters().end());
  std::vector<float> x(24);
  x[5] = std::numeric_limits<float>::infinity();
  learner.set<"x">(x);
  const StepResult broken = learner.step(AdamW{});
  CHECK(!broken.finite);
  CHECK(!broken.culprit.empty());
  CHECK(!std::isfinite(broken.gradient_norm));
  learner.set<"x">(std::vector<float>(24)).forward();
  learner.output_gradient()(0) = std::numeric_limits<float>::infinity();
  learner.backward();
  const StepResult seeded = learner.update(AdamW{});
  CHECK(!seeded.finite);
  CHECK(std::isfinite(seeded.loss));
  CHECK(seeded.culprit == "up");
  CHECK(std::ranges::equal(before, learner.parameters()));
  CHECK(learner.steps() == 1);
  learner.value_and_grad();
  CHECK(std::ranges::any_of(learner.gradients(), [](float g) { return g != 0; }));
  CHECK(learner.update(AdamW{}).finite);
  CHECK(std::ranges::all_of(learner.gradients(), [](float g) { return g == 0; }));
  CHECK(!std::ranges::equal(before, learner.parameters()));
  CHECK_THROWS_WITH_AS(learner.update(AdamW{}), doctest::Contains("update() without a backward()"), Error);
}

TEST_SUITE_END();
