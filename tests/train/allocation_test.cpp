// SPDX-License-Identifier: MIT
#include <simplx/train/trainer.hpp>

#include "allocations.hpp"
#include "support.hpp"

#include <simplx/differentiate/learner.hpp>
#include <simplx/ops/reduce.hpp>
#include <simplx/train/average.hpp>
#include <simplx/train/batches.hpp>

using namespace simplx;

namespace {
// As long as the vectors of every instruction set, so that all products run on the fast path.
inline constexpr Decoder model{
    .block = sas_p, .vocab = 64, .width = 64, .heads = 2, .hidden = 128, .layers = 3, .context = 40};
inline constexpr auto least_squares = [] {
  auto A = input("A", rows_of(Axis::batch, 3)), y = input("y", rows_of(Axis::batch, 1));
  return sum(square(A * variable("w", fixed_shape(3, 1)) - y));
};
inline constexpr auto in_parts = [] {
  const auto layer = [](Expr x) { return x + tanh(x * weight("w", 16, 16, normal(0.1))); };
  const Expr h = stack("layers", 2, layer, input("x", rows_of(Axis::batch, 16)));
  return mean(square(h * weight("out", 16, 1, normal(0.1)) - input("y", rows_of(Axis::batch, 1))));
};
inline constexpr auto at_once = [] { return sqrt(in_parts()); };

template <auto const& loss>
void check_learner(int threads) {
  Learner<loss> learner{{.threads = threads}};
  const Eigen::MatrixXf x = Eigen::MatrixXf::Random(300, 16);
  const Eigen::VectorXf y = Eigen::VectorXf::Random(300);
  const auto few_steps = [&] {
    for (int i = 0; i < 3; ++i) {
      learner.template set<"x">(x).template set<"y">(y);
      learner.step(AdamW{});
      learner.loss();
      learner.template set<"x">(x.topRows(100)).template set<"y">(y.head(100));
      learner.step(Sgd{.momentum = 0.9});
    }
  };
  few_steps();
  CHECK(test::allocations_of(few_steps) == 0);
}
}  // namespace

TEST_CASE("train/allocation: steps of a learner allocate nothing once its rows are known, divided or not") {
  for (const int threads : {1, 2}) {
    check_learner<in_parts>(threads);
    check_learner<at_once>(threads);
  }
}

TEST_CASE("train/allocation: a function of Eigen objects allocates nothing once its rows are known") {
  Function<least_squares> f;
  const Eigen::Matrix<double, Eigen::Dynamic, 3, Eigen::RowMajor> A = Eigen::MatrixXd::Random(500, 3);
  const Eigen::VectorXd y = Eigen::VectorXd::Random(500);
  Eigen::Vector3d w = Eigen::Vector3d::Random();
  f.bind<"A">(A).bind<"y">(y).set<"w">(w).value_and_grad();
  CHECK(test::allocations_of([&] {
          for (int i = 0; i < 3; ++i) {
            f.set<"w">(w).value_and_grad();
            w -= 1e-3 * f.gradient<"w">();
          }
        }) == 0);
}

TEST_CASE(
    "train/allocation: assembling a batch, steps in one part or two and averages allocate nothing, on one thread and "
    "on two") {
  Corpus corpus;
  for (int i = 0; i < 2000; ++i) corpus.bytes.push_back(static_cast<std::uint8_t>(i % 61));
  corpus.training = {{"a", 0, 2000}};
  for (const int threads : {1, 2}) {
    Trainer<model> trainer(
        {.batch = 6,
         .threads = threads,
         .sequences_per_step = 12,
         .groups = {{.name = "*.mlp.*", .learning_rate_factor = 0.5}, {.name = "*.gain", .weight_decay = 0.1}}});
    WeightAverage<float> average(trainer.parameters().size(), 0.9);
    Batches batches(corpus, corpus.training, {.context = 40, .sequences = 6, .seed = 1});
    TokenBatch batch = make_batch(6, 40);
    batches.next(batch);
    trainer.step(batch, {});
    average.update(trainer.parameters());
    const long allocations = test::allocations_of([&] {
      for (int i = 0; i < 20; ++i) {  // several epochs
        batches.next(batch);
        trainer.step(batch, {});
        const Index labelled = 2 * labelled_tokens(batch);
        trainer.accumulate(batch, labelled);
        trainer.accumulate(batch, labelled);
        trainer.update(Sgd{.momentum = 0.9});
        average.update(trainer.parameters());
        const auto in_place = average.swap_into(trainer);
        trainer.loss(batch);
      }
    });
    CHECK(allocations == 0);
  }
  CHECK(test::allocations_of([] { ::operator delete(::operator new(8)); }) == 1);  // the counter counts
}
