// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/evaluation.cuh>

#include "cuda/kernels.hpp"
#include "support.hpp"

#include <simplx/ops/cross_entropy.hpp>
#include <simplx/ops/reduce.hpp>

#include <algorithm>
#include <array>
#include <memory>

using namespace simplx;

namespace {

inline constexpr auto model = [] {
  const Expr x = variable("x", rows_of(Axis::batch, 3));
  return sum(probe("seen", multiply(x, vector("gain", 3))) * hyper("scale", 2.0));
};
inline constexpr auto classifier = [] {
  return cross_entropy(variable("x", rows_of(Axis::batch, 4)) * weight("w", 4, 8, normal(1)),
                       indices("labels", Axis::batch));
};

}  // namespace

TEST_SUITE_BEGIN("cuda/evaluation");

TEST_CASE("inputs, parameters, constants, results, gradients and probes are reached by name, on the host") {
  Evaluation<model, Cuda<>> run(Rows{.batch = 2});
  const auto take = [](std::span<float> values) { return std::vector<float>(values.begin(), values.end()); };
  std::ranges::copy(std::vector<float>{1, 2, 3, 4, 5, 6}, run.input("x").begin());
  CHECK_THROWS_WITH_AS(run.backward(), doctest::Contains("backward() without a forward()"), Error);
  run.forward();
  CHECK(run.output()[0] == 2 * 21);
  run.output_gradient()[0] = 1;
  run.backward();
  CHECK(take(run.gradient("gain")) == std::vector<float>{10, 14, 18});
  CHECK(take(run.input_gradient("x")) == std::vector<float>(6, 2));
  int probes = 0;
  run.each_probe([&](const std::string& name, const Shape&, const float* value, const float* gradient) {
    CHECK(name == "seen");
    CHECK(value[5] == 6);
    CHECK(gradient[0] == 2);
    ++probes;
  });
  CHECK(probes == 1);
  run.constant("scale")[0] = 3;
  run.parameter("gain")[0] = 10;
  run.forward();
  CHECK(run.output()[0] == 3 * (10 * 5 + 16));
  CHECK_THROWS_WITH_AS(run.input("y"), doctest::Contains("no input named 'y'"), Error);
}

TEST_CASE("an evaluation may move") {
  auto first = std::make_unique<Evaluation<classifier, Cuda<Precision::float64>>>(Rows{.batch = 3});
  Evaluation<classifier, Cuda<Precision::float64>> expected(Rows{.batch = 3});
  test::fill_inputs(*first, 8), test::fill_inputs(expected, 8);
  Evaluation run = std::move(*first);
  first.reset();
  run.forward(), expected.forward();
  CHECK(run.output()[0] == doctest::Approx(expected.output()[0]));
  std::ranges::fill(run.output_gradient(), 1.0), std::ranges::fill(expected.output_gradient(), 1.0);
  run.backward(), expected.backward();
  CHECK(run.gradients()[0] == doctest::Approx(expected.gradients()[0]));
}

TEST_CASE("a second backward after one forward gives the same gradients, though the first wrote over the logits") {
  Evaluation<classifier, Cuda<Precision::float64>> run(Rows{.batch = 3});
  test::fill_inputs(run, 8);
  run.forward();
  std::vector<double> first;
  for (int i = 0; i < 2; ++i) {
    std::ranges::copy(std::array{1.0, 2.0, 3.0}, run.output_gradient().begin());
    run.backward();
    if (i == 0) first.assign(run.gradients().begin(), run.gradients().end());
    CHECK(std::ranges::equal(first, run.gradients()));
  }
  CHECK(std::ranges::any_of(first, [](double g) { return g != 0; }));
}

TEST_SUITE_END();
