// SPDX-License-Identifier: MIT
#include <simplx/train/trainer_state.hpp>

#include <simplx/ops/dropout.hpp>
#include <simplx/train/trainer.hpp>

#include "support.hpp"

#include <vector>

using namespace simplx;

namespace {

/// Dropout, so that the number of steps taken matters.
struct Dropping {
  constexpr Expr operator()(Expr x) const {
    return x + dropout("drop", named("mlp", Mlp{32})(named("norm", RmsNorm{})(x)), 0.2);
  }
};
inline constexpr DecoderOf<Dropping> model{.block = {}, .vocab = 16, .width = 16, .layers = 2, .context = 8};

TokenBatch some_batch(int number) {
  TokenBatch batch;
  batch.offsets = {0};
  for (int b = 0; b < 3; ++b) {
    for (Index i = 0; i < 8; ++i) {
      batch.tokens.push_back(
          static_cast<std::int32_t>(bits(static_cast<std::uint64_t>(number), batch.tokens.size()) % 16));
      batch.labels.push_back((batch.tokens.back() * 5 + 3) % 16);
    }
    batch.offsets.push_back(batch.offsets.back() + 8);
  }
  return batch;
}

/// AdamW to begin with, then Sgd, whose moments begin anew.
template <class Trainer>
void steps(Trainer& trainer, int begin, int end) {
  for (int i = begin; i < end; ++i) {
    if (i < 6) trainer.step(some_batch(i), AdamW{.learning_rate = 1e-2 / (i + 1)});
    else trainer.step(some_batch(i), Sgd{.learning_rate = 1e-2, .momentum = 0.9});
  }
}

TrainerOptions options(int threads) {
  return {.batch = 3, .seed = 5, .threads = threads, .groups = {{.name = "*.up.weight", .learning_rate_factor = 0.5}}};
}

}  // namespace

TEST_SUITE_BEGIN("train/trainer_state");

TEST_CASE("a state goes on bit for bit, wherever it is taken and on any number of threads") {
  Trainer<model> whole(options(1));
  steps(whole, 0, 10);
  for (const int cut : {0, 3, 6, 8}) {
    CAPTURE(cut);
    Trainer<model> first(options(2));
    steps(first, 0, cut);
    Trainer<model> second(options(3));
    steps(second, 0, 2);  // what it has learned so far is forgotten
    second.restore(first.state());
    CHECK(second.steps() == cut);
    steps(second, cut, 10);
    CHECK(std::ranges::equal(whole.parameters(), second.parameters()));
    CHECK(std::ranges::equal(whole.state().second_moments, second.state().second_moments));
    CHECK(second.state().count.optimiser == "sgd");
    CHECK(second.state().count.moment_steps == 4);
    CHECK(std::ranges::equal(first.parameters(), first.state().parameters));  // and the first one keeps its own
  }
}

TEST_CASE("a state of another training is refused with all that differs, and changes nothing") {
  Trainer<model> trainer(options(1)), other({.batch = 3, .seed = 6});
  steps(trainer, 0, 2);
  const std::vector<float> before(trainer.parameters().begin(), trainer.parameters().end());
  CHECK_THROWS_WITH_AS(trainer.restore(other.state()), doctest::Contains("seed: 6 there, 5 here"), Error);
  auto state = trainer.state();
  state.count.moment_steps = 3;
  CHECK_THROWS_WITH_AS(trainer.restore(state), doctest::Contains("3 of 2 is impossible"), Error);
  state = trainer.state();
  state.first_moments = state.first_moments.first(5);
  CHECK_THROWS_WITH_AS(trainer.restore(state), doctest::Contains("elements of the first moments: 5 there"), Error);
  CHECK(trainer.steps() == 2);
  CHECK(std::ranges::equal(before, trainer.parameters()));
}

TEST_CASE("a state of a trainer with another clip or other groups is refused, of one that does not tell them taken") {
  Trainer<model> trainer(options(1));
  steps(trainer, 0, 2);
  const auto rules = [](auto change) {
    TrainerOptions other = options(2);
    change(other);
    return rules_of(other);
  };
  CHECK(trainer.state().rules == "clip 1, *.up.weight learning_rate_factor 0.5");
  CHECK(rules([](TrainerOptions& o) { o.batch = 4, o.sequences_per_step = 8, o.context = 7; }) == rules_of(options(1)));
  CHECK(rules([](TrainerOptions& o) { o.clip = 0.1, o.groups.back().epsilon = 1e-7; }) ==
        "clip 0.1, *.up.weight learning_rate_factor 0.5 epsilon 1e-07");
  const auto refused = [&](auto change, const std::string& there) {
    TrainerOptions changed = options(2);
    change(changed);
    Trainer<model> other(changed);
    other.step(some_batch(0), Sgd{});
    auto state = other.state();
    CHECK_THROWS_WITH_AS(trainer.restore(state), doctest::Contains(("rules: " + there + " there, clip 1, *").c_str()),
                         Error);
    CHECK(trainer.steps() == 2);
    state.rules.clear();
    Trainer<model>(options(1)).restore(state);
  };
  refused([](TrainerOptions& o) { o.clip = 0.5; }, "clip 0.5, *.up.weight learning_rate_factor 0.5");
  refused([](TrainerOptions& o) { o.clip += 1e-15; }, "clip 1.000000000000001, *.up.weight learning_rate_factor 0.5");
  refused([](TrainerOptions& o) { o.groups.clear(); }, "clip 1");
  refused([](TrainerOptions& o) { o.groups.push_back({.name = "embedding.*", .weight_decay = 0, .momentum = 0.5}); },
          "clip 1, *.up.weight learning_rate_factor 0.5, embedding.* weight_decay 0 momentum 0.5");
  refused([](TrainerOptions& o) { o.groups.push_back({.name = "*.gain", .decays = true}); },
          "clip 1, *.up.weight learning_rate_factor 0.5, *.gain decays");
  refused([](TrainerOptions& o) { o.groups.push_back({.name = "*.gain", .decays = false}); },
          "clip 1, *.up.weight learning_rate_factor 0.5, *.gain does not decay");
}

TEST_CASE("half a step is no state") {
  Trainer<model> trainer(options(1));
  trainer.accumulate(some_batch(1), 24);
  CHECK_THROWS_WITH_AS(trainer.state(), doctest::Contains("half accumulated"), Error);
  trainer.update(AdamW{});
  CHECK(trainer.state().count.steps == 1);
}

TEST_SUITE_END();
