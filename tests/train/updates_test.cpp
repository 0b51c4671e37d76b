// SPDX-License-Identifier: MIT
#include <simplx/train/updates.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace simplx;

namespace {

constexpr Index size = 3 * norm_chunk + 5 * alignment;  // several chunks, the last one short
const std::vector<TensorInfo>& tensors() {
  static const std::vector<TensorInfo> all = [] {
    std::vector<TensorInfo> two(2);
    two[0].name = "w", two[0].shape = fixed_shape(1, norm_chunk + alignment), two[0].rank = 1, two[0].offset = 0;
    two[1].name = "still", two[1].shape = fixed_shape(1, size - norm_chunk - alignment), two[1].rank = 1;
    two[1].offset = norm_chunk + alignment;
    return two;
  }();
  return all;
}
TrainerOptions options(double clip) {
  return {.clip = clip, .groups = {{.name = "still", .learning_rate_factor = 0}}};
}

}  // namespace

TEST_SUITE_BEGIN("train/updates");

TEST_CASE("an update folds each part once, has the same bits for any number of threads, and leaves zeros") {
  std::vector<float> first;
  for (const int threads : {1, 2, 3}) {
    Updates<float> updates(tensors(), size, options(0.5));
    cpu::Team team(threads);
    std::vector<float> parameters(size, 1), gradient(size);
    std::vector<int> folds(size);
    StepResult result;
    updates.step(AdamW{.learning_rate = 0.1}, team, tensors(), parameters.data(), gradient.data(), result,
                 [&](Index begin, Index end) {
                   for (Index i = begin; i < end; ++i) {
                     ++folds[static_cast<std::size_t>(i)];
                     gradient[static_cast<std::size_t>(i)] = static_cast<float>(i % 7) - 2;
                   }
                 });
    CHECK(result.finite);
    double squared = 0;  // without what is frozen
    for (Index i = 0; i < norm_chunk + alignment; ++i) squared += static_cast<double>((i % 7 - 2) * (i % 7 - 2));
    CHECK(result.gradient_norm == doctest::Approx(std::sqrt(squared)));
    CHECK(folds == std::vector<int>(size, 1));
    CHECK(std::count(gradient.begin(), gradient.begin() + norm_chunk + alignment, 0.0f) == norm_chunk + alignment);
    CHECK(std::count(parameters.begin() + norm_chunk + alignment, parameters.end(), 1.0f) == size - norm_chunk - alignment);
    CHECK(parameters[0] != 1);
    if (first.empty()) first = parameters;
    CHECK(parameters == first);
    CHECK(updates.count().steps == 1);
    CHECK(updates.size() == 2 * size);
  }
}

TEST_CASE("another optimiser begins with moments of its own; what is not finite counts as no step") {
  Updates<double> updates(tensors(), size, options(0));
  cpu::Team team;
  std::vector<double> parameters(size, 1);
  const auto step = [&](const auto& optimiser, double g) {
    std::vector<double> gradient(size, g);
    StepResult result;
    updates.step(optimiser, team, tensors(), parameters.data(), gradient.data(), result, [](Index, Index) {});
    return result;
  };
  const Sgd sgd{.learning_rate = 0, .momentum = 0.5};
  step(sgd, 1), step(sgd, 1);
  CHECK(updates.first_moments()[0] == 1.5);
  step(AdamW{.learning_rate = 0}, 1);
  CHECK(updates.first_moments()[0] == doctest::Approx(0.1));
  CHECK(updates.count().optimiser == "adamw");
  CHECK(updates.count().moment_steps == 1);
  step(sgd, 1), step(AdamW{.learning_rate = 0, .beta2 = 0.75}, 2);
  CHECK(updates.second_moments()[0] == 1);  // a quarter of 2^2, and nothing of AdamW's before
  const StepResult broken = step(AdamW{}, std::numeric_limits<double>::quiet_NaN());
  CHECK(!broken.finite);
  CHECK(broken.culprit == "w");
  CHECK(updates.count().steps == 5);
  CHECK(parameters[0] == 1);
  updates.restore({"sgd", 9, 4});
  CHECK(updates.count().step_of("sgd") == 5);
  CHECK(updates.count().step_of("adamw") == 1);
}

/// An optimiser whose rule cannot be made.
struct Failing : Sgd {
  static constexpr const char* name = "failing";
  Failing with(const ParameterSettings&) const { return *this; }
  template <class S>
  SgdStep<S> at(long) const {
    throw Error("no rule");
  }
};

TEST_CASE("an optimiser that throws leaves no moments, and says so") {
  Updates<double> updates(tensors(), size, options(0));
  cpu::Team team;
  std::vector<double> parameters(size, 1), gradient(size, 1);
  StepResult result;
  const auto step = [&](const auto& optimiser) {
    updates.step(optimiser, team, tensors(), parameters.data(), gradient.data(), result, [](Index, Index) {});
  };
  step(Sgd{});
  CHECK_THROWS_AS(step(Failing{}), Error);
  CHECK(updates.count().steps == 1);
  CHECK(updates.count().step_of("sgd") == 1);
  CHECK(updates.first_moments()[0] == 0);
}

TEST_CASE("numbers that make no sense are refused, of groups when it is made, of optimisers when it is asked") {
  CHECK_THROWS_WITH_AS(Updates<float>(tensors(), size, {.groups = {{.name = "v"}}}), doctest::Contains("no parameter"),
                       Error);
  const Updates<float> updates(tensors(), size, options(1));
  CHECK_THROWS_WITH_AS(updates.check(AdamW{.beta1 = 2}), doctest::Contains("beta1 is 2"), Error);
}

TEST_SUITE_END();
