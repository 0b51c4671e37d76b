// SPDX-License-Identifier: MIT
#include <simplx/differentiate/learner.hpp>

#include <simplx/core/random.hpp>
#include <simplx/io/training.hpp>
#include <simplx/ops/activation.hpp>
#include <simplx/ops/cross_entropy.hpp>
#include <simplx/ops/dropout.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/reduce.hpp>
#include <simplx/train/average.hpp>
#include <simplx/train/hyper.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

using namespace simplx;

namespace {

inline constexpr auto regression = [] {
  const Expr x = input("x", rows_of(Axis::batch, 3)), y = input("y", rows_of(Axis::batch, 1));
  return mean(square(x * weight("w", 3, 1, normal(1)) + vector("b", 1, zeros) - y));
};
inline constexpr auto inside_out = [] {  // whether a point lies beyond a circle
  const Expr x = dropout("mask", input("x", rows_of(Axis::batch, 2)), hyper("mask.rate", 0.1));
  const Expr h = tanh(x * weight("up", 2, 24, normal(1)) + vector("bias", 24, zeros));
  return mean(cross_entropy(h * weight("down", 24, 2, normal(0.2)), indices("beyond", Axis::batch)));
};
inline constexpr auto per_row = [] {
  return square(input("x", rows_of(Axis::batch, 3)) * weight("w", 3, 1, normal(1)));
};

struct Points {
  Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> x{200, 2};
  std::vector<int> beyond;
  explicit Points(std::uint64_t seed) {
    for (Index i = 0; i < x.rows(); ++i) {
      x(i, 0) = normal(seed, static_cast<std::uint64_t>(2 * i)), x(i, 1) = normal(seed, static_cast<std::uint64_t>(2 * i + 1));
      beyond.push_back(x.row(i).norm() > 1.2);
    }
  }
};

std::vector<float> copy_of(std::span<const float> numbers) { return {numbers.begin(), numbers.end()}; }

}  // namespace

TEST_SUITE_BEGIN("differentiate/learner");

TEST_CASE("a step is the optimiser's over the gradient, clipped, of the loss that it tells") {
  const Eigen::MatrixXd x = Eigen::MatrixXd::Random(9, 3);
  const Eigen::VectorXd y = Eigen::VectorXd::Random(9);
  for (const double clip : {0.0, 0.3}) {
    Learner<regression, Cpu<double>> learner{{.seed = 2, .clip = clip}};
    CHECK(learner.options().seed == 2);
    CHECK(learner.options().clip == clip);
    Eigen::Vector3d w = learner.parameter<"w">();
    Eigen::Vector3d m = Eigen::Vector3d::Zero(), v = m;
    double b = 0, mb = 0, vb = 0;
    learner.set<"x">(x).set<"y">(y);
    for (int step = 1; step <= 3; ++step) {
      const Eigen::VectorXd error = (x * w).array() + b - y.array();
      Eigen::Vector3d g = 2.0 / 9 * x.transpose() * error;
      double gb = 2.0 / 9 * error.sum();
      const double norm = std::sqrt(g.squaredNorm() + gb * gb);
      if (clip > 0) g *= std::min(1.0, clip / (norm + 1e-6)), gb *= std::min(1.0, clip / (norm + 1e-6));
      m = 0.9 * m + 0.1 * g, v = 0.99 * v + 0.01 * g.cwiseAbs2();
      mb = 0.9 * mb + 0.1 * gb, vb = 0.99 * vb + 0.01 * gb * gb;
      const double c1 = 1 - std::pow(0.9, step), c2 = 1 - std::pow(0.99, step);
      w = w * (1 - 0.1 * 0.5) - 0.1 * (m / c1).cwiseQuotient(((v / c2).cwiseSqrt().array() + 1e-8).matrix());
      b -= 0.1 * (mb / c1) / (std::sqrt(vb / c2) + 1e-8);  // a bias does not decay

      const StepResult result =
          learner.step(AdamW{.learning_rate = 0.1, .beta2 = 0.99, .weight_decay = 0.5});
      CHECK(result.finite);
      CHECK(result.loss == doctest::Approx(error.squaredNorm() / 9).epsilon(1e-12));
      CHECK(result.labelled == 0);
      CHECK(result.gradient_norm == doctest::Approx(norm).epsilon(1e-12));
      CHECK((learner.parameter<"w">() - w).norm() < 1e-12);
      CHECK(learner.parameter<"b">()(0) == doctest::Approx(b).epsilon(1e-12));
      CHECK(learner.steps() == step);
    }
  }
}

TEST_CASE("it learns what it is shown, and knows it of what it has not seen") {
  Learner<inside_out> learner{{.seed = 1}};
  for (std::uint64_t step = 0; step < 300; ++step) {
    const Points batch(step);
    learner.set<"x">(batch.x).set<"beyond">(batch.beyond);
    learner.step(AdamW{.learning_rate = 2e-2, .weight_decay = 0});
  }
  const Points unseen(1000);
  learner.set<"x">(unseen.x).set<"beyond">(unseen.beyond);
  CHECK(learner.value() < 0.25);
}

TEST_CASE("dropout drops in steps alone, by the seed and the number of the step") {
  const Points batch(3);
  Learner<inside_out> first{{.seed = 1}}, second{{.seed = 1}}, other{{.seed = 1}};
  std::ranges::copy(first.parameters(), other.parameters().begin());
  for (auto* learner : {&first, &second, &other}) learner->set<"x">(batch.x).set<"beyond">(batch.beyond);
  const float without = first.value();
  CHECK(!first.random().training);
  const double with = first.step(Sgd{.learning_rate = 0}).loss;
  CHECK(with != without);
  CHECK(second.step(Sgd{.learning_rate = 0}).loss == with);
  CHECK(second.step(Sgd{.learning_rate = 0}).loss != with);  // another mask
  CHECK(first.value() == without);
}

TEST_CASE("evaluations of one's own drop what a step does, while training() is alive") {
  const Points points(2);
  Learner<inside_out, Cpu<double>> by_steps{{.seed = 1}}, own{{.seed = 1}};
  by_steps.set<"x">(points.x).set<"beyond">(points.beyond), own.set<"x">(points.x).set<"beyond">(points.beyond);
  for (int step = 0; step < 3; ++step) {
    const double loss = by_steps.step(AdamW{}).loss;
    {
      const auto training = own.training();
      own.forward();
      own.output_gradient()(0) = 1;
      own.backward();
      CHECK(own.update(AdamW{}).loss == doctest::Approx(loss).epsilon(1e-12));
    }
    CHECK(own.loss() == doctest::Approx(by_steps.loss()).epsilon(1e-9));
    CHECK(std::abs(own.loss() - loss) > 1e-4);  // nothing is dropped now
  }
}

TEST_CASE("a training that is saved goes on with the same bits, and its weights are a checkpoint") {
  const auto folder = std::filesystem::temp_directory_path() / "simplx_learner_test";
  std::filesystem::remove_all(folder);
  const LearnerOptions options{.seed = 4, .groups = {{.name = "bias", .learning_rate_factor = 2}}};
  const auto train = [](Learner<inside_out>& learner, std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t step = from; step < to; ++step) {
      const Points batch(step);
      learner.set<"x">(batch.x).set<"beyond">(batch.beyond).step(AdamW{});
    }
  };
  Learner<inside_out> whole(options), first(options), second(options), of_weights;
  train(whole, 0, 7), train(first, 0, 4);
  save_training(folder, first);
  load_training(folder, second);
  CHECK(second.steps() == 4);
  train(second, 4, 7);
  CHECK(copy_of(second.parameters()) == copy_of(whole.parameters()));
  load_checkpoint(folder / "model.safetensors", of_weights);
  CHECK(copy_of(of_weights.parameters()) == copy_of(first.parameters()));
  CHECK_THROWS_WITH_AS(load_training(folder, of_weights), doctest::Contains("the state is not of this training"), Error);
  std::filesystem::remove_all(folder);
}

TEST_CASE("a gradient of several results, or of rows, updates by itself, once") {
  Learner<per_row, Cpu<double>> learner{{.seed = 1, .clip = 0}};
  learner.set<"x">(Eigen::MatrixXd::Identity(3, 3));
  const Eigen::Vector3d w = learner.parameter<"w">();
  CHECK_THROWS_WITH_AS(learner.update(Sgd{}), doctest::Contains("update() without a backward()"), Error);
  learner.forward();
  learner.output_gradient().setOnes();
  learner.backward();
  CHECK((learner.gradient<"w">() - 2 * w).norm() < 1e-14);
  const StepResult result = learner.update(Sgd{.learning_rate = 0.25});
  CHECK(result.gradient_norm == doctest::Approx(2 * w.norm()));
  CHECK((learner.parameter<"w">() - 0.5 * w).norm() < 1e-14);
  CHECK_THROWS_WITH_AS(learner.gradient<"w">(), doctest::Contains("gradient() without a backward()"), Error);
  CHECK_THROWS_WITH_AS(learner.update(Sgd{}), doctest::Contains("update() without a backward()"), Error);
  CHECK_THROWS_WITH_AS(learner.backward(), doctest::Contains("backward() without a forward()"), Error);
  CHECK(learner.steps() == 1);
}

TEST_CASE("what is not finite changes nothing and says which tensor; groups freeze, laws draw") {
  Learner<regression> learner{{.seed = 1,
                               .groups = {{.name = "w", .learning_rate_factor = 0}},
                               .laws = [](std::vector<TensorInfo> tensors) {
                                 for (TensorInfo& tensor : tensors) tensor.init = constant(0.5);
                                 return tensors;
                               }}};
  const Eigen::MatrixXd x = Eigen::MatrixXd::Ones(2, 3);
  CHECK(learner.parameter<"w">().sum() == 1.5f);
  learner.set<"x">(x).set<"y">(std::vector<double>{1, std::numeric_limits<double>::quiet_NaN()});
  const std::vector<float> before = copy_of(learner.parameters());
  const StepResult broken = learner.step(AdamW{});
  CHECK(!broken.finite);
  CHECK(broken.culprit == "b");  // the gradient of what is frozen is none
  CHECK(copy_of(learner.parameters()) == before);
  CHECK(learner.steps() == 0);
  learner.set<"y">(std::vector<double>{1, 2});
  CHECK(learner.step(AdamW{}).finite);
  CHECK(learner.parameter<"w">().sum() == 1.5f);
  CHECK(learner.parameter<"b">()(0) != before.back());
}

TEST_CASE("numbers are set by name, and an average of weights takes their place") {
  Learner<inside_out> learner{{.seed = 1}};
  const Points batch(3);
  learner.bind<"beyond">(batch.beyond).set<"x">(batch.x);
  WeightAverage<float> average(learner.parameters().size());
  for (int step = 0; step < 2; ++step) {
    learner.step(Sgd{.learning_rate = 0.1});
    average.update(learner.parameters());
  }
  const double of_last = learner.loss();
  {
    const auto in_place = average.swap_into(learner);
    CHECK(learner.loss() != of_last);
  }
  CHECK(learner.loss() == of_last);
  set_hyper(learner, "mask.rate", 0);
  CHECK(learner.step(Sgd{.learning_rate = 0}).loss == of_last);  // nothing is dropped
}

TEST_CASE("options and optimisers that make no sense are refused, and nothing has changed") {
  CHECK_THROWS_WITH_AS(Learner<regression>({.clip = -1}), doctest::Contains("clip is -1"), Error);
  CHECK_THROWS_WITH_AS(Learner<regression>({.groups = {{.name = "v"}}}), doctest::Contains("no parameter matches"),
                       Error);
  Learner<regression> learner;
  CHECK_THROWS_WITH_AS(learner.step(AdamW{.learning_rate = -1}), doctest::Contains("learning_rate is -1"), Error);
  CHECK_THROWS_WITH_AS(learner.step(AdamW{}), doctest::Contains("was never set"), Error);
  CHECK(!learner.random().training);
  CHECK(learner.steps() == 0);
}

TEST_SUITE_END();
