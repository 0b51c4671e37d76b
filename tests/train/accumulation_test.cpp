// SPDX-License-Identifier: MIT
#include <simplx/train/trainer.hpp>

#include "support.hpp"

#include <limits>

using namespace simplx;

// A step in parts against the whole step, and what is left of a step that is given up.

namespace {

inline constexpr Decoder model{
    .block = sas_p, .vocab = 32, .width = 32, .heads = 2, .hidden = 64, .layers = 2, .context = 24};

/// Eight ragged sequences, some labels missing, one sequence without any.
TokenBatch some_batch(int seed) {
  TokenBatch batch;
  batch.offsets = {0};
  for (const Index length : {24, 3, 17, 1, 24, 9, 5, 12}) {
    for (Index i = 0; i < length; ++i) {
      const std::uint64_t random = bits(static_cast<std::uint64_t>(seed), batch.tokens.size());
      batch.tokens.push_back(static_cast<std::int32_t>(random % 32));
      batch.labels.push_back(length == 9 || random % 7 == 0 ? ignored_label : (batch.tokens.back() * 5 + 3) % 32);
    }
    batch.offsets.push_back(batch.offsets.back() + length);
  }
  return batch;
}

/// Sequences [first, first + count), as a batch of their own.
TokenBatch part_of(const TokenBatch& batch, Index first, Index count) {
  const Index begin = batch.offsets[first], end = batch.offsets[first + count];
  TokenBatch part{{batch.tokens.begin() + begin, batch.tokens.begin() + end},
                  {batch.labels.begin() + begin, batch.labels.begin() + end},
                  {}};
  for (Index s = first; s <= first + count; ++s) part.offsets.push_back(batch.offsets[s] - begin);
  return part;
}

struct Outcome {
  std::vector<double> reports;
  std::vector<float> parameters;
  bool operator==(const Outcome& other) const {
    return reports == other.reports &&
           std::memcmp(parameters.data(), other.parameters.data(), parameters.size() * sizeof(float)) == 0;
  }
};

Outcome train(const std::vector<Index>& parts, int threads) {
  Trainer<model> trainer({.batch = *std::ranges::max_element(parts), .seed = 3, .threads = threads,
                          .sequences_per_step = 8});
  Outcome outcome;
  for (int step = 0; step < 3; ++step) {
    const TokenBatch batch = some_batch(step);
    Index first = 0;
    for (const Index count : parts) {
      trainer.accumulate(part_of(batch, first, count), labelled_tokens(batch));
      first += count;
    }
    const StepResult result = trainer.update(AdamW{.learning_rate = 1e-2});
    outcome.reports.insert(outcome.reports.end(),
                           {result.loss, result.gradient_norm, static_cast<double>(result.labelled)});
  }
  outcome.parameters.assign(trainer.parameters().begin(), trainer.parameters().end());
  return outcome;
}

std::vector<float> copy_of(Trainer<model>& trainer) {
  return {trainer.parameters().begin(), trainer.parameters().end()};
}

}  // namespace

TEST_SUITE_BEGIN("train/accumulation");

TEST_CASE("a step in parts is the whole step, bit for bit, for any split and any number of threads") {
  Outcome whole;
  Trainer<model> trainer({.batch = 8, .seed = 3});
  for (int step = 0; step < 3; ++step) {
    const StepResult result = trainer.step(some_batch(step), {.learning_rate = 1e-2});
    whole.reports.insert(whole.reports.end(),
                         {result.loss, result.gradient_norm, static_cast<double>(result.labelled)});
  }
  whole.parameters = copy_of(trainer);
  for (const int threads : {1, 2, 3, 8, 9}) {
    for (const auto& parts : {std::vector<Index>{8}, {4, 4}, {1, 1, 1, 1, 1, 1, 1, 1}, {3, 5}, {5, 1, 2}}) {
      CAPTURE(threads);
      CAPTURE(parts.size());
      CHECK(train(parts, threads) == whole);
    }
  }
}

TEST_CASE("the order of the sequences is a part of the bits: a sum in another order would be seen") {
  Trainer<model> trainer({.batch = 8, .seed = 3});
  const TokenBatch batch = some_batch(0);
  const Index labelled = labelled_tokens(batch);
  trainer.accumulate(part_of(batch, 4, 4), labelled);
  trainer.accumulate(part_of(batch, 0, 4), labelled);
  trainer.update(AdamW{});
  Trainer<model> other({.batch = 8, .seed = 3});
  other.step(batch, AdamW{});
  CHECK(copy_of(trainer) != copy_of(other));
}

TEST_CASE("losses and logits may be asked for between the parts") {
  Trainer<model> trainer({.batch = 8, .seed = 3}), other({.batch = 8, .seed = 3});
  const TokenBatch batch = some_batch(1);
  const Index labelled = labelled_tokens(batch);
  trainer.accumulate(part_of(batch, 0, 3), labelled);
  const std::vector<float> before = copy_of(trainer);
  for (float& number : trainer.parameters()) number *= 0.5f;  // of an average, say
  trainer.loss(some_batch(2));
  trainer.logits(std::vector<std::int32_t>{1, 2, 3});
  std::ranges::copy(before, trainer.parameters().begin());
  trainer.accumulate(part_of(batch, 3, 5), labelled);
  const StepResult a = trainer.update(AdamW{}), b = other.step(batch, {});
  CHECK(a.loss == b.loss);
  CHECK(a.gradient_norm == b.gradient_norm);
  CHECK(copy_of(trainer) == copy_of(other));
}

TEST_CASE("a step that was given up leaves nothing behind") {
  const TokenBatch batch = some_batch(1);
  const Index labelled = labelled_tokens(batch);
  Trainer<model> expected({.batch = 8, .seed = 3});
  expected.step(batch, {});
  const auto check = [&](auto give_up) {
    Trainer<model> trainer({.batch = 8, .seed = 3, .threads = 2});
    const std::vector<float> before = copy_of(trainer);
    trainer.accumulate(part_of(some_batch(9), 0, 3), 77);
    give_up(trainer);
    CHECK(copy_of(trainer) == before);
    CHECK(trainer.steps() == 0);
    CHECK_THROWS_WITH_AS(trainer.update(AdamW{}), doctest::Contains("there is no gradient to update with"), Error);
    trainer.accumulate(part_of(batch, 0, 4), labelled);
    trainer.accumulate(part_of(batch, 4, 4), labelled);
    trainer.update(AdamW{});
    CHECK(copy_of(trainer) == copy_of(expected));
  };
  check([](auto& trainer) { trainer.discard(); });
  check([](auto& trainer) {
    TokenBatch bad = part_of(some_batch(9), 3, 2);
    bad.tokens[1] = 99;
    CHECK_THROWS_WITH_AS(trainer.accumulate(bad, 77), doctest::Contains("token 99 at position"), Error);
  });
  check([](auto& trainer) {
    CHECK_THROWS_WITH_AS(trainer.accumulate(part_of(some_batch(9), 3, 2), 78),
                         doctest::Contains("a step of 78 labels follows one of a step of 77"), Error);
  });
  check([](auto& trainer) {  // six more make nine
    CHECK_THROWS_WITH_AS(trainer.accumulate(part_of(some_batch(9), 2, 6), 77),
                         doctest::Contains("a step of 9 sequences for a trainer made for 8"), Error);
  });
  check([](auto& trainer) {
    CHECK_THROWS_WITH_AS(trainer.update(AdamW{}), doctest::Contains("labels, not 77 as announced"), Error);
  });
  check([](auto& trainer) {  // an invalid step ends it as well
    TokenBatch bad = some_batch(9);
    bad.labels[1] = 99;
    CHECK_THROWS_AS(trainer.step(bad, {}), Error);
  });
  check([&](auto& trainer) {
    std::vector<float> gradient(trainer.parameters().size()), same(gradient.size());
    const StepResult result = trainer.loss_and_gradient(batch, gradient);
    Trainer<model> fresh({.batch = 8, .seed = 3});
    CHECK(result.loss == fresh.loss_and_gradient(batch, same).loss);
    CHECK(gradient == same);
    CHECK(result.gradient_norm == fresh.step(batch, {}).gradient_norm);
    fresh.parameter("embedding.weight")[0] = NAN;
    const StepResult broken = fresh.loss_and_gradient(batch, same);
    CHECK(!broken.finite);
    CHECK(broken.culprit == "embedding.weight");
    CHECK(fresh.step(batch, {}).culprit == "embedding.weight");
  });
  Trainer<model> trainer({.batch = 8, .seed = 3});
  trainer.accumulate(part_of(some_batch(9), 0, 3), 77);
  trainer.step(batch, {});  // a step is a step of its own
  CHECK(copy_of(trainer) == copy_of(expected));
}

TEST_CASE("moments begin anew when another optimiser takes over") {
  Trainer<model> trainer({.batch = 8, .seed = 3}), fresh({.batch = 8, .seed = 3});
  for (int step = 0; step < 3; ++step) trainer.step(some_batch(step), Sgd{.learning_rate = 0.1, .momentum = 0.9});
  std::ranges::copy(trainer.parameters(), fresh.parameters().begin());
  for (int step = 0; step < 2; ++step) trainer.step(some_batch(step), AdamW{}), fresh.step(some_batch(step), AdamW{});
  CHECK(copy_of(trainer) == copy_of(fresh));
  CHECK(trainer.steps() == 5);
}

TEST_CASE("a trainer is made for at least one sequence") {
  CHECK_THROWS_WITH_AS(Trainer<model>({.sequences_per_step = -1}), doctest::Contains("sequences_per_step is -1"),
                       Error);
  CHECK_THROWS_WITH_AS(Trainer<model>({.batch = -1}), doctest::Contains("batch is -1"), Error);
}

TEST_SUITE_END();
