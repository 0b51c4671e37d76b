// SPDX-License-Identifier: MIT
#include <simplx/nn/linear.hpp>
#include <simplx/ops/activation.hpp>
#include <simplx/ops/cross_entropy.hpp>
#include <simplx/ops/embedding.hpp>
#include <simplx/train/evaluation.hpp>
#include <simplx/train/gradient_sums.hpp>
#include <simplx/train/trainer.hpp>

#include <doctest/doctest.h>

using namespace simplx;

namespace {

/// Weights that several steps use: the table as embedding and head, a matrix twice in a layer, a gain in two loops; and
/// layers that share theirs, among which there is one that is used once.
struct Layer {
  constexpr Expr operator()(Expr x) const {
    auto w = weight("w", 16, 16);
    auto gain = scalar("gain");
    auto y = gain * gelu(x * w);
    return x + gain * (y * w);
  }
};
struct Loop {
  constexpr Expr operator()(Expr x) const { return stack("inner", 2, Layer{}, x) * vector("once", 16); }
};
struct Model {
  constexpr Expr operator()() const {
    auto table = weight("table", 32, 16);
    auto places = positions(stack("refine", 2, Layer{}, weight("places", 16, 16)));  // layers above a parameter
    auto x = stack("blocks", 3, Layer{}, embedding(table, indices("tokens", Axis::tokens)) + places);
    x = stack("loop", 3, Shared{Loop{}}, x);
    return cross_entropy(x * transpose(table), indices("labels", Axis::tokens));
  }
};
constexpr Model model;
using G = GraphOf<model>;
using Block = G::layers_of<[] {
  for (int i = 0; i < G::count; ++i) {
    if (G::table.info[i].stack && G::flat.label[i].name.view() == "blocks") return i;
  }
  return -1;
}()>;
using InBlock = Block::child<0>;

TokenBatch some_batch() {
  TokenBatch batch;
  batch.offsets = {0};
  for (Index s = 0; s < 5; ++s) {
    for (Index i = 0; i < 3 + 2 * s; ++i) batch.tokens.push_back(static_cast<std::int32_t>((7 * s + 5 * i) % 32));
    batch.offsets.push_back(static_cast<Index>(batch.tokens.size()));
  }
  for (const std::int32_t token : batch.tokens) batch.labels.push_back((3 * token + 1) % 32);
  return batch;
}

}  // namespace

TEST_SUITE_BEGIN("train/gradient_sums");

TEST_CASE("each use of a parameter after the first has a sum, in layers for each of them") {
  static_assert(InBlock::layout.further_elements == 16 * 16 + 16);  // w, and the gain: a number takes a line of 16
  static_assert(G::layout.further_elements ==
                32 * 16 + (5 + 3 * 2) * InBlock::layout.further_elements + 2 * (2 * InBlock::layout.parameters + 16));
  std::vector<FurtherUse> uses;
  detail::list_further_uses<G>(0, 0, uses);
  REQUIRE(uses.size() == 25);
  Index covered = 0;
  for (const FurtherUse& use : uses) {
    CHECK(use.sum == covered);
    covered += use.size;
    CHECK(use.parameter + use.size <= G::layout.parameters);
  }
  CHECK(covered == G::layout.further_elements);
  const auto tensors = tensors_of<model>().parameters;
  const auto offset = [&](std::string_view name) {
    for (const TensorInfo& tensor : tensors) {
      if (tensor.name == name) return tensor.offset;
    }
    return Index(-1);
  };
  for (const char* name : {"table", "blocks.0.w", "blocks.0.gain", "blocks.2.w", "blocks.2.gain", "refine.1.w"}) {
    CAPTURE(name);
    CHECK(std::ranges::count(uses, offset(name), &FurtherUse::parameter) == 1);
  }
  for (const char* name : {"loop.inner.0.w", "loop.inner.1.gain"}) {
    CAPTURE(name);
    const Index place = offset(name);
    CHECK(std::ranges::count_if(uses, [&](const FurtherUse& use) {
            return use.parameter <= place && place < use.parameter + use.size;
          }) == 5);  // twice in each of three layers, once in place
  }
}

TEST_CASE("fold adds a range up and clears its further sums; clear forgets all") {
  GradientSums<G, float> sums;
  Context<float> context;
  sums.give_to(context);
  CHECK(sums.size() == G::layout.parameters + G::layout.further_elements);
  for (Index i = 0; i < G::layout.parameters; ++i) context.gradients[i] = 1;
  for (Index i = 0; i < G::layout.further_elements; ++i) context.further_gradients[i] = 2;
  std::vector<FurtherUse> uses;
  detail::list_further_uses<G>(0, 0, uses);
  std::vector<float> expected(static_cast<std::size_t>(G::layout.parameters), 1);
  for (const FurtherUse& use : uses) {
    for (Index i = 0; i < use.size; ++i) expected[static_cast<std::size_t>(use.parameter + i)] += 2;
  }
  for (Index begin = 0; begin < G::layout.parameters; begin += 100) {
    sums.fold(begin, std::min(begin + 100, G::layout.parameters));
  }
  CHECK(std::ranges::equal(sums.folded(), expected));
  sums.fold(0, G::layout.parameters);  // there is nothing left to add
  CHECK(std::ranges::equal(sums.folded(), expected));
  context.further_gradients[3] = 5;
  sums.clear();
  sums.fold(0, G::layout.parameters);
  CHECK(std::ranges::all_of(sums.folded(), [](float g) { return g == 0; }));
}

TEST_CASE("each use has its sum, and together they are the gradient") {
  using Run = Evaluation<model>::Run;
  Evaluation<model> whole(Rows{.tokens = 9}, 3, {4, 5});
  for (std::size_t i = 0; i < 9; ++i) {
    whole.indices("tokens")[i] = static_cast<std::int32_t>(7 * i % 32);
    whole.indices("labels")[i] = static_cast<std::int32_t>(5 * i % 32);
  }
  whole.forward();
  std::ranges::fill(whole.output_gradient(), 1.0);
  whole.backward();

  detail::Workspace<G, Cpu<double>> workspace(Rows{.tokens = 9, .sequences = 2});
  const Index offsets[] = {0, 4, 9};
  Context<double> context = workspace.context(Rows{.tokens = 9, .sequences = 2}, {offsets, 2}, 5);
  cpu::Buffer<double> packed(G::layout.packed_elements), turned(G::layout.packed_elements);
  GradientSums<G, double> sums;
  sums.give_to(context);
  context.parameters = whole.parameters().data(), context.packed = packed.data(), context.turned = turned.data();
  context.inputs[G::input_number("tokens")] = whole.indices("tokens").data();
  context.inputs[G::input_number("labels")] = whole.indices("labels").data();
  Run::prepare(context.parameters, packed.data(), turned.data());
  Run::forward(context);
  std::fill_n(context.output_gradients[0], 9, 1.0);
  Run::backward(context);
  std::vector<FurtherUse> uses;
  detail::list_further_uses<G>(0, 0, uses);
  for (const FurtherUse& use : uses) {
    CAPTURE(use.sum);
    const double* const sum = context.further_gradients + use.sum;
    CHECK(std::any_of(sum, sum + use.size, [](double g) { return g != 0; }));
  }
  sums.fold(0, G::layout.parameters);
  for (std::size_t i = 0; i < whole.gradients().size(); ++i) {
    CHECK(sums.folded()[i] == doctest::Approx(whole.gradients()[i]).epsilon(1e-12));
  }
}

TEST_CASE("their sum is the gradient, with the same bits for any number of threads") {
  const TokenBatch batch = some_batch();
  const Index rows = std::ssize(batch.tokens);
  Evaluation<model> whole(Rows{.tokens = rows}, 3, {3, 5, 7, 9, 11});
  std::ranges::copy(batch.tokens, whole.indices("tokens").begin());
  std::ranges::copy(batch.labels, whole.indices("labels").begin());
  whole.forward();
  std::ranges::fill(whole.output_gradient(), 1.0 / static_cast<double>(rows));
  whole.backward();  // which adds all uses to one gradient
  std::vector<float> first;
  for (const int threads : {1, 2, 5}) {
    CAPTURE(threads);
    Trainer<model, Cpu<double>> exact({.batch = 5, .context = 16, .seed = 3, .threads = threads});
    std::vector<double> gradient(exact.parameters().size());
    exact.loss_and_gradient(batch, gradient);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      REQUIRE(gradient[i] == doctest::Approx(whole.gradients()[i]).epsilon(1e-12));
    }
    Trainer<model> trainer({.batch = 5, .context = 16, .seed = 3, .threads = threads});
    std::vector<float> single(trainer.parameters().size());
    for (int again = 0; again < 20; ++again) {
      trainer.loss_and_gradient(batch, single);
      if (first.empty()) first = single;
      REQUIRE(single == first);
    }
  }
}

TEST_SUITE_END();
