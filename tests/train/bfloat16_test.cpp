// SPDX-License-Identifier: MIT
// Training whose products round their operands to bfloat16: the same model, parameters and data, the same curve. And
// what was trained in float, with its weights in bytes.
#include <simplx/simplx.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace simplx;

namespace {

inline constexpr Decoder model{
    .block = sas_p, .vocab = 32, .width = 64, .heads = 4, .layers = 2, .context = 32};

/// A text of which most can be foretold: every token follows from the one before, but for one in eight.
TokenBatch text(std::uint64_t number) {
  TokenBatch batch = make_batch(4, 32);
  batch.offsets.push_back(0);
  for (Index i = 0; i < 4; ++i) {
    std::int32_t token = static_cast<std::int32_t>(bits(number, static_cast<std::uint64_t>(i)) % 32);
    for (Index t = 0; t < 32; ++t) {
      batch.tokens.push_back(token);
      const std::uint64_t draw = bits(number + 7, static_cast<std::uint64_t>(i * 32 + t));
      token = draw % 8 ? (token * 5 + 3) % 32 : static_cast<std::int32_t>(draw / 8 % 32);
      batch.labels.push_back(token);
    }
    batch.offsets.push_back(static_cast<Index>(batch.tokens.size()));
  }
  return batch;
}

}  // namespace

TEST_SUITE("train/bfloat16") {
  TEST_CASE("gradients differ by roundings, and the loss falls as in float") {
    const TrainerOptions options{.batch = 4, .seed = 3};
    Trainer<model> exact(options);
    Trainer<model, Cpu<float, Path::bfloat16>> rounded(options);

    std::vector<float> g(exact.parameters().size()), h = g;
    exact.loss_and_gradient(text(0), g), rounded.loss_and_gradient(text(0), h);
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < g.size(); ++i) {
      difference += std::pow(static_cast<double>(g[i] - h[i]), 2), size += std::pow(static_cast<double>(g[i]), 2);
    }
    CHECK(difference > 1e-8 * size);  // it rounds
    CHECK(difference < 1e-4 * size);  // by 2^-9 of each operand

    const AdamW optimiser{.learning_rate = 3e-3};
    double first = 0, last = 0, apart = 0;
    for (std::uint64_t step = 0; step < 80; ++step) {
      const double a = exact.step(text(step), optimiser).loss, b = rounded.step(text(step), optimiser).loss;
      if (step == 0) first = a;
      last = a, apart = std::max(apart, std::abs(a - b));
    }
    CHECK(last < 0.6 * first);
    CHECK(apart < 0.02 * first);
  }
  TEST_CASE("a training has the same bits on one thread and on two") {
    using Rounded = Trainer<model, Cpu<float, Path::bfloat16>>;
    Rounded one({.batch = 4, .seed = 3, .threads = 1}), two({.batch = 4, .seed = 3, .threads = 2});
    for (std::uint64_t step = 0; step < 5; ++step) one.step(text(step), AdamW{}), two.step(text(step), AdamW{});
    CHECK(std::ranges::equal(one.parameters(), two.parameters()));
  }
  TEST_CASE("what was trained loses little where its weights are bytes") {
    Trainer<model> trainer({.batch = 4, .seed = 3});
    for (std::uint64_t step = 0; step < 80; ++step) trainer.step(text(step), AdamW{.learning_rate = 3e-3});
    const TokenBatch unseen = text(1000);
    const Rows rows{.tokens = 128, .sequences = 4};
    const auto loss_of = [&](auto evaluation) {
      copy_parameters(trainer, evaluation);
      std::ranges::copy(unseen.tokens, evaluation.indices("tokens").begin());
      std::ranges::copy(unseen.labels, evaluation.indices("labels").begin());
      evaluation.forward();
      double sum = 0;
      for (const float loss : evaluation.output()) sum += static_cast<double>(loss) / 128;
      return sum;
    };
    const double exact = loss_of(Evaluation<model, Cpu<float>>(rows));
    const double in_bytes = loss_of(Evaluation<model, Cpu<float, Path::int8>>(rows));
    MESSAGE(exact << " nats per token, in bytes " << in_bytes);
    CHECK(exact < 2.2);
    CHECK(in_bytes != exact);
    CHECK(std::abs(in_bytes - exact) < 0.01 * exact);
  }
}
