// SPDX-License-Identifier: MIT
#include <simplx/train/trainer.hpp>

#include "emulation/sanitizers.hpp"
#include "support.hpp"

#include <simplx/generate/inference.hpp>
#include <simplx/ops/dropout.hpp>
#include <simplx/ops/softmax.hpp>
#include <simplx/train/batches.hpp>

#include <sys/resource.h>

#include <limits>

using namespace simplx;

namespace {

inline constexpr Decoder model{
    .block = sas_p, .vocab = 32, .width = 32, .heads = 2, .hidden = 64, .layers = 3, .context = 24};

/// Five sequences, two of them shorter, two labels missing.
TokenBatch some_batch(int seed = 1) {
  TokenBatch batch;
  batch.offsets = {0};
  for (const Index length : {24, 24, 5, 24, 1}) {
    for (Index i = 0; i < length; ++i) {
      batch.tokens.push_back(
          static_cast<std::int32_t>(bits(static_cast<std::uint64_t>(seed), batch.tokens.size()) % 32));
      batch.labels.push_back((batch.tokens.back() * 5 + 3) % 32);
    }
    batch.offsets.push_back(batch.offsets.back() + length);
  }
  batch.labels[3] = batch.labels[30] = -100;
  return batch;
}

/// Dropout in every layer, after both sub-blocks.
struct Dropping {
  constexpr Expr operator()(Expr x) const {
    x = x + dropout("attention_drop", named("attention", MultiHeadAttention{.heads = 2})(named("norm1", RmsNorm{})(x)),
                    0.2);
    return x + dropout("mlp_drop", named("mlp", Mlp{64})(named("norm2", RmsNorm{})(x)), hyper("rate", 0.2));
  }
};
inline constexpr DecoderOf<Dropping> dropping{.block = {}, .vocab = 32, .width = 32, .layers = 3, .context = 24};

/// A weight that is a product of others, as in LoRA: both have a gradient that all sequences add to.
inline constexpr auto merged = [] {
  const Expr x = embedding(weight("embedding", 32, 16), indices("tokens", Axis::tokens));
  const Expr merged_weight = weight("a", 16, 4) * weight("b", 4, 32) + vector("c", 4) * weight("d", 4, 32);
  return cross_entropy(x * merged_weight, indices("labels", Axis::tokens));
};

/// With a loss of its own beside that of labels, in every row.
inline constexpr auto with_z_loss = [] {
  const Expr x = embedding(weight("embedding", 32, 16, normal(1)), indices("tokens", Axis::tokens));
  const Expr logits = x * weight("head", 16, 32, normal(1));
  return cross_entropy(logits, indices("labels", Axis::tokens)) + square(log_sum_exp(logits, Over::columns));
};

}  // namespace

TEST_SUITE_BEGIN("train/trainer");

TEST_CASE("rows without a label are no part of the loss, nor of its gradient, whatever a model computes there") {
  const TokenBatch seen{{5, 9, 1}, {2, 7, 30}, {0, 3}};
  const TokenBatch padded{{5, 9, 1, 8, 8}, {2, 7, 30, ignored_label, ignored_label}, {0, 5}};
  Trainer<with_z_loss, Cpu<double>> trainer{{.context = 8}};
  CHECK(trainer.loss(padded) == trainer.loss(seen));
  std::vector<double> of_padded(trainer.parameters().size()), of_seen(of_padded);
  CHECK(trainer.loss_and_gradient(padded, of_padded).loss == trainer.loss_and_gradient(seen, of_seen).loss);
  CHECK(of_padded == of_seen);
  TokenBatch third = seen;  // and the others alone are what is left of the mean over all
  third.labels[2] = ignored_label;
  CHECK(3 * trainer.loss(seen) == doctest::Approx(2 * trainer.loss(third) + trainer.loss({{1}, {30}, {0, 1}})));
}

TEST_CASE("dropout: the same bits for any threads and any split of a step, other masks in the next step") {
  const TokenBatch batch = some_batch();
  const auto part = [&](std::size_t first, std::size_t last) {
    TokenBatch some;
    const auto begin = batch.offsets[first], end = batch.offsets[last];
    some.tokens.assign(batch.tokens.begin() + begin, batch.tokens.begin() + end);
    some.labels.assign(batch.labels.begin() + begin, batch.labels.begin() + end);
    for (std::size_t i = first; i <= last; ++i) some.offsets.push_back(batch.offsets[i] - begin);
    return some;
  };
  std::vector<float> expected;
  for (const int threads : {1, 3}) {
    for (const bool split : {false, true}) {
      Trainer<dropping> trainer({.batch = 5, .seed = 3, .threads = threads});
      for (int step = 0; step < 2; ++step) {
        if (split) {
          for (const auto& [first, last] : {std::pair{0, 2}, std::pair{2, 5}}) {
            trainer.accumulate(part(static_cast<std::size_t>(first), static_cast<std::size_t>(last)),
                               labelled_tokens(batch));
          }
          trainer.update(AdamW{});
        } else {
          trainer.step(batch, AdamW{});
        }
      }
      const std::vector<float> now(trainer.parameters().begin(), trainer.parameters().end());
      if (expected.empty()) expected = now;
      CHECK(now == expected);
    }
  }
  Trainer<dropping> trainer({.batch = 5, .seed = 3});
  const double evaluated = trainer.loss(batch);
  CHECK(evaluated == trainer.loss(batch));
  const double first = trainer.step(batch, AdamW{.learning_rate = 0}).loss,
               second = trainer.step(batch, AdamW{.learning_rate = 0}).loss;
  CHECK(first != second);
  CHECK(first != evaluated);
}

TEST_CASE("the same bits for 1, 2 and 4 threads") {
  std::vector<float> expected;
  for (const int threads : {1, 2, 4, 3}) {
    Trainer<model> trainer({.batch = 5, .seed = 3, .threads = threads});
    for (int step = 0; step < 6; ++step) trainer.step(some_batch(step), {.learning_rate = 1e-2});
    const std::vector<float> values(trainer.parameters().begin(), trainer.parameters().end());
    if (expected.empty()) expected = values;
    CHECK(std::memcmp(values.data(), expected.data(), values.size() * sizeof(float)) == 0);
    CHECK(trainer.steps() == 6);
  }
}

TEST_CASE("a trainer that moves between steps goes on with the same bits") {
  static_assert(std::is_move_constructible_v<Trainer<model>> && std::is_move_assignable_v<Trainer<model>>);
  const TokenBatch batch = some_batch();
  Trainer<model> stays({.batch = 5, .seed = 2, .threads = 2}), first({.batch = 5, .seed = 2, .threads = 2});
  stays.step(batch, AdamW{}), first.step(batch, AdamW{});
  Trainer<model> second(std::move(first)), third({.batch = 1, .seed = 9});
  CHECK(second.step(batch, AdamW{}).loss == stays.step(batch, AdamW{}).loss);
  third = std::move(second);
  CHECK(third.step(batch, AdamW{}).loss == stays.step(batch, AdamW{}).loss);
  CHECK(std::ranges::equal(third.parameters(), stays.parameters()));
}

TEST_CASE("parameters that are multiplied with each other lose no addition to another thread") {
  TokenBatch batch{.tokens = {}, .labels = {}, .offsets = {0}};
  for (Index i = 0; i < 32; ++i) {
    batch.tokens.push_back(static_cast<std::int32_t>(i * 7 % 32)), batch.labels.push_back(3);
    if (i % 2) batch.offsets.push_back(i + 1);
  }
  Trainer<merged> one({.batch = 16, .context = 8, .seed = 3}), two({.batch = 16, .context = 8, .seed = 3, .threads = 2});
  std::vector<float> expected(one.parameters().size()), found(expected.size());
  one.loss_and_gradient(batch, expected);
  int others = 0;
  for (int round = 0; round < 2000; ++round) {  // one in twenty had lost one
    two.loss_and_gradient(batch, found);
    others += std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)) != 0;
  }
  CHECK(others == 0);
}

TEST_CASE("the gradient of a batch is that of its packed evaluation, however many threads add it up") {
  const TokenBatch batch = some_batch();
  Evaluation<model> whole(Rows{.tokens = 78}, 3, {24, 24, 5, 24, 1});
  std::ranges::copy(batch.tokens, whole.indices("tokens").begin());
  std::ranges::copy(batch.labels, whole.indices("labels").begin());
  whole.forward();
  std::ranges::fill(whole.output_gradient(), 1.0 / 76);
  whole.backward();
  double loss = 0;
  for (const double row : whole.output()) loss += row / 76;
  for (const int threads : {1, 2, 5, 7}) {
    Trainer<model, Cpu<double>> trainer({.batch = 5, .seed = 3, .threads = threads});
    std::vector<double> gradient(trainer.parameters().size());
    CHECK_THROWS_AS(trainer.loss_and_gradient(batch, std::span(gradient).first(gradient.size() - 1)), Error);
    const StepResult result = trainer.loss_and_gradient(batch, gradient);
    CHECK(result.labelled == 76);
    CHECK(result.loss == doctest::Approx(loss).epsilon(1e-13));
    CHECK(trainer.loss(batch) == doctest::Approx(loss).epsilon(1e-13));
    double worst = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      worst = std::max(worst, std::abs(gradient[i] - whole.gradients()[i]));
    }
    CHECK(worst < 1e-14);
  }
}

TEST_CASE("a batch is memorised, in float and in double") {
  Trainer<model> trainer({.batch = 5});
  const TokenBatch batch = some_batch();
  const double first = trainer.step(batch, {.learning_rate = 3e-3}).loss;
  for (int i = 0; i < 150; ++i) trainer.step(batch, {.learning_rate = 3e-3});
  CHECK(first > 3);
  CHECK(trainer.loss(batch) < 0.3 * first);
}

TEST_CASE("without labels nothing is learned: what decays shrinks, everything else keeps its bits") {
  Trainer<model, Cpu<double>> trainer({.batch = 5});
  TokenBatch batch = some_batch();
  std::ranges::fill(batch.labels, -100);
  const std::vector<double> before(trainer.parameters().begin(), trainer.parameters().end());
  const StepResult result = trainer.step(batch, {.learning_rate = 0.01, .weight_decay = 0.1});
  CHECK(result.labelled == 0);
  CHECK(result.loss == 0);
  for (const TensorInfo& tensor : trainer.tensors().parameters) {
    CAPTURE(tensor.name);
    const bool matrix = tensor.name.ends_with("weight") || tensor.name.ends_with("delta");
    CHECK(tensor.decays == matrix);
    for (Index i = tensor.offset; i < tensor.offset + tensor.size(); ++i) {
      REQUIRE(trainer.parameters()[static_cast<std::size_t>(i)] ==
              before[static_cast<std::size_t>(i)] * (matrix ? 1 - 0.001 : 1));
    }
  }
}

TEST_CASE("after one step beta and gamma have moved by the learning rate, in opposite directions") {
  Trainer<model, Cpu<double>> trainer({.batch = 5});
  trainer.step(some_batch(), {.learning_rate = 1e-3, .epsilon = 1e-30});
  for (std::size_t h = 0; h < 2; ++h) {
    const double beta = trainer.parameter("blocks.1.attention.beta")[h] - 1,
                 gamma = trainer.parameter("blocks.1.attention.gamma")[h] - 1;
    CHECK(std::abs(beta) == doctest::Approx(1e-3).epsilon(1e-9));
    CHECK(beta + gamma == doctest::Approx(0).epsilon(1e-9));
  }
}

TEST_CASE("clipping limits the step's gradient, not its report") {
  Trainer<model, Cpu<double>> free({.batch = 5, .clip = 0}), limited({.batch = 5, .clip = 1e-3});
  const TokenBatch batch = some_batch();
  const StepResult a =
      free.step(batch, {.learning_rate = 1, .beta1 = 0, .beta2 = 0, .epsilon = 1e6, .weight_decay = 0});
  const StepResult b =
      limited.step(batch, {.learning_rate = 1, .beta1 = 0, .beta2 = 0, .epsilon = 1e6, .weight_decay = 0});
  CHECK(a.gradient_norm == doctest::Approx(b.gradient_norm));
  Trainer<model, Cpu<double>> start({.batch = 5});
  const double x = start.parameter("final_norm.gain")[3];
  const double moved_free = free.parameter("final_norm.gain")[3] - x,
               moved_limited = limited.parameter("final_norm.gain")[3] - x;
  CHECK(moved_limited == doctest::Approx(moved_free * 1e-3 / (a.gradient_norm + 1e-6)).epsilon(1e-6));
}

TEST_CASE("parameters and constants are reached by name, in place") {
  Trainer<model> trainer({.batch = 5});
  Inference<logits_of<model>> net;
  const auto check = [](auto& any) {
    any.constant("final_norm.epsilon")[0] = 7;
    any.parameter("final_norm.gain")[3] = 8;
    CHECK(std::ranges::count(any.constants(), 7.f) == 1);
    CHECK(std::ranges::count(any.parameters(), 8.f) == 1);
    CHECK_THROWS_WITH_AS(any.constant("final_norm.epsilo"), doctest::Contains("the nearest names are final_norm.eps"),
                         Error);
    CHECK_THROWS_WITH_AS(any.parameter("final_norm.gains"), doctest::Contains("no parameter named 'final_norm.gains'"),
                         Error);
  };
  check(trainer);
  check(net);
}

TEST_CASE("a loss that is not finite stops the step, names a parameter and changes nothing") {
  Trainer<model> trainer({.batch = 5});
  trainer.parameter("blocks.1.mlp.up.weight")[7] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> before(trainer.parameters().begin(), trainer.parameters().end());
  const StepResult result = trainer.step(some_batch(), {});
  CHECK(!result.finite);
  CHECK(!result.culprit.empty());
  CHECK(trainer.steps() == 0);
  CHECK(std::memcmp(before.data(), trainer.parameters().data(), before.size() * sizeof(float)) == 0);
  trainer.parameter("blocks.1.mlp.up.weight")[7] = 0;
  CHECK(trainer.step(some_batch(), {}).finite);  // nothing of the broken gradient is left
}

TEST_CASE("numbers of an optimiser that would spoil the parameters are refused, and nothing has changed") {
  Trainer<model> trainer({.batch = 5});
  const std::vector<float> before(trainer.parameters().begin(), trainer.parameters().end());
  const auto refused = [&](const auto& optimiser, const char* words) {
    CHECK_THROWS_WITH_AS(trainer.step(some_batch(), optimiser), doctest::Contains(words), Error);
    CHECK_THROWS_WITH_AS(trainer.update(optimiser), doctest::Contains(words), Error);
  };
  const double none = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();
  refused(AdamW{.learning_rate = none}, "AdamW's learning_rate is nan");
  refused(AdamW{.learning_rate = -1e-3}, "AdamW's learning_rate is -0.001");
  refused(AdamW{.beta1 = 1}, "AdamW's beta1 is 1\n");
  refused(AdamW{.beta2 = -0.5}, "AdamW's beta2");
  refused(AdamW{.epsilon = 0}, "AdamW's epsilon");
  refused(AdamW{.weight_decay = infinite}, "AdamW's weight_decay is inf");
  refused(Sgd{.learning_rate = infinite}, "Sgd's learning_rate");
  refused(Sgd{.momentum = -0.9}, "Sgd's momentum");
  refused(Sgd{.momentum = 1}, "Sgd's momentum");  // whose sum of gradients has no end
  refused(Sgd{.weight_decay = none}, "Sgd's weight_decay");
  CHECK(trainer.steps() == 0);
  CHECK(std::ranges::equal(before, trainer.parameters()));
  CHECK_NOTHROW(trainer.step(some_batch(), AdamW{.learning_rate = 0, .beta1 = 0}));
}

TEST_CASE("what does not fit is refused with a sentence") {
  Trainer<model> trainer({.batch = 5});
  CHECK_THROWS_WITH_AS(trainer.parameter("blocks.0.mlp.upp.weight"),
                       doctest::Contains("the nearest names are blocks.0.mlp.up.weight"), Error);
  TokenBatch batch = some_batch();
  batch.tokens[9] = 32;
  CHECK_THROWS_WITH_AS(trainer.step(batch, {}), doctest::Contains("token 32 at position"), Error);
  batch = some_batch();
  batch.labels[9] = 77;
  CHECK_THROWS_AS(trainer.step(batch, {}), Error);
  batch = some_batch();
  batch.offsets = {0, 25, 78};
  CHECK_THROWS_WITH_AS(trainer.loss(batch), doctest::Contains("a sequence of 25 tokens for a context of 24"), Error);
  Trainer<model> small({.batch = 2});
  CHECK_THROWS_WITH_AS(small.step(some_batch(), {}), doctest::Contains("5 sequences for a trainer made for at most 2"),
                       Error);
  CHECK_THROWS_WITH_AS(Trainer<model>({.context = 25}), doctest::Contains("the model's positions end at 24"), Error);
}

TEST_CASE("without positions that end, the context is the model's own") {
  static constexpr Decoder alibi{.block = sas_p_alibi, .vocab = 9, .width = 8, .heads = 2, .layers = 1, .context = 32};
  CHECK(Trainer<alibi>({.batch = 1}).options().context == 32);
  CHECK(Trainer<alibi>({.batch = 1, .context = 40}).options().context == 40);
}

TEST_CASE("a further thread takes an arena, and no copy of the gradient") {
  const Index one = Trainer<model>({.batch = 8}).bytes(), two = Trainer<model>({.batch = 8, .threads = 2}).bytes();
  CHECK(two - one == arena_bytes_on<model, Cpu<float>>(tokens{24}) + 2 * 32 * 4);  // and the rows of the results
}

TEST_CASE("a step touches no new memory") {
  Trainer<model> trainer({.batch = 5, .threads = 2});
  const TokenBatch batch = some_batch();
  for (int i = 0; i < 3; ++i) trainer.step(batch, {});
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  for (int i = 0; i < 20; ++i) trainer.step(batch, {});
  getrusage(RUSAGE_SELF, &after);
  // AddressSanitizer has frames of its own for functions, on pages that it takes in turn.
  if (!emulation::address_sanitized) CHECK(after.ru_minflt - before.ru_minflt < 20);
}

TEST_CASE("logits are those of the last position, and the same for any length of what follows") {
  Trainer<model> trainer({.batch = 1});
  const std::vector<std::int32_t> tokens{3, 1, 4, 1, 5, 9, 2, 6};
  const auto all = trainer.logits(tokens);
  REQUIRE(all.size() == 8 * 32);
  const std::vector<float> whole(all.begin(), all.end());
  const auto of_row = [&](std::size_t row) { return std::span(whole).subspan(row * 32, 32); };
  CHECK(std::ranges::equal(of_row(5), trainer.logits(std::span(tokens).first(6)).last(32)));
  const auto three = trainer.logits(std::span(tokens).first(3)).last(32);
  for (std::size_t i = 0; i < 32; ++i) {  // to rounding: a matrix unit leaves few rows to the vectors
    CHECK(three[i] == doctest::Approx(of_row(2)[i]).epsilon(1e-5).scale(0.1));
  }
}

TEST_SUITE_END();
