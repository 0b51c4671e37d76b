// SPDX-License-Identifier: MIT
#include <simplx/train/micro_batches.hpp>

#include "support.hpp"

#include <simplx/models/classifier.hpp>
#include <simplx/ops/custom.hpp>
#include <simplx/ops/dropout.hpp>
#include <simplx/train/trainer.hpp>

using namespace simplx;

namespace {

inline constexpr Decoder decoder{
    .block = sas_p, .vocab = 32, .width = 32, .heads = 2, .layers = 2, .context = 24, .dropout = 0.2,
    .attention_dropout = 0.3};
inline constexpr Classifier classifier{
    {.block = bert_sas_p, .vocab = 32, .width = 16, .heads = 2, .layers = 1, .context = 24, .position_rows = 26},
    {.classes = 5, .dropout = 0.2}};
/// What no two sequences may see at once: sums over the rows of one, or of their gradients.
inline constexpr auto scaled_back = [] {
  const Expr x = embedding(weight("embedding", 32, 16), indices("tokens", Axis::tokens));
  const auto scaled = with_pull_back([](Expr y) { return y; },
                                     [](Expr dy, Expr, Expr) { return dy / sqrt(sum(square(dy))); });
  return cross_entropy(scaled(x) * weight("head", 16, 32), indices("labels", Axis::tokens));
};
inline constexpr auto centred = [] {
  const Expr x = embedding(weight("embedding", 32, 16), indices("tokens", Axis::tokens));
  return cross_entropy((x - mean(x, Over::rows)) * weight("head", 16, 32), indices("labels", Axis::tokens));
};

TokenBatch batch_of(const std::vector<Index>& lengths, int labels, bool by_sequence) {
  TokenBatch batch{.tokens = {}, .labels = {}, .offsets = {0}};
  for (const Index length : lengths) {
    for (Index i = 0; i < length; ++i) {
      batch.tokens.push_back(static_cast<std::int32_t>(bits(7, batch.tokens.size()) % 32));
    }
    for (Index i = 0; i < (by_sequence ? 1 : length); ++i) {
      batch.labels.push_back(static_cast<std::int32_t>(bits(8, batch.labels.size()) % static_cast<unsigned>(labels)));
    }
    batch.offsets.push_back(batch.offsets.back() + length);
  }
  return batch;
}
TokenBatch part_of(const TokenBatch& batch, Index first, Index last, bool by_sequence) {
  const Index begin = batch.offsets[first], end = batch.offsets[last];
  const Index first_label = by_sequence ? first : begin, last_label = by_sequence ? last : end;
  TokenBatch part{{batch.tokens.begin() + begin, batch.tokens.begin() + end},
                  {batch.labels.begin() + first_label, batch.labels.begin() + last_label},
                  {}};
  for (Index s = first; s <= last; ++s) part.offsets.push_back(batch.offsets[s] - begin);
  return part;
}

/// Lengths of 1 to 24, most of them short.
std::vector<Index> some_lengths(Index count) {
  std::vector<Index> lengths;
  for (Index s = 0; s < count; ++s) {
    lengths.push_back(1 + static_cast<Index>(bits(9, static_cast<std::uint64_t>(s)) % 5));
    if (s % 9 == 4) lengths.back() = 24;
  }
  return lengths;
}

/// What two steps make of a model, each of them in these parts.
template <auto const& model, class S>
std::vector<S> trained(const TokenBatch& batch, const std::vector<Index>& ends, int threads, bool by_sequence) {
  Trainer<model, Cpu<S>> trainer(
      {.batch = batch.sequences(), .context = 24, .seed = 3, .threads = threads});
  for (int step = 0; step < 2; ++step) {
    Index first = 0;
    for (const Index end : ends) {
      trainer.accumulate(part_of(batch, first, end, by_sequence),
                         by_sequence ? labelled_sequences(batch) : labelled_tokens(batch));
      first = end;
    }
    trainer.update(Sgd{.learning_rate = 0.5});
  }
  return {trainer.parameters().begin(), trainer.parameters().end()};
}

template <auto const& model>
void check_against_single_sequences(int labels, bool by_sequence) {
  const TokenBatch batch = batch_of(some_lengths(100), labels, by_sequence);
  std::vector<Index> each;
  for (Index s = 1; s <= 100; ++s) each.push_back(s);
  const auto single = trained<model, double>(batch, each, 1, by_sequence);
  const auto together = trained<model, double>(batch, {100}, 1, by_sequence);
  double worst = 0;
  for (std::size_t i = 0; i < single.size(); ++i) worst = std::max(worst, std::abs(single[i] - together[i]));
  CHECK(worst < 1e-13);
  const auto whole = trained<model, float>(batch, {100}, 1, by_sequence);
  for (const int threads : {2, 5}) CHECK(trained<model, float>(batch, {100}, threads, by_sequence) == whole);

  Trainer<model, Cpu<double>> trainer({.batch = 100, .context = 24, .seed = 3, .threads = 2});
  double loss = 0;
  for (Index s = 0; s < 100; ++s) {
    const TokenBatch one = part_of(batch, s, s + 1, by_sequence);
    loss += trainer.loss(one) * static_cast<double>(by_sequence ? 1 : one.tokens.size());
  }
  const double labelled = by_sequence ? 100 : static_cast<double>(batch.tokens.size());
  CHECK(trainer.loss(batch) == doctest::Approx(loss / labelled).epsilon(1e-13));
}

std::vector<Index> begins_of(MicroBatches& micro_batches, const std::vector<Index>& lengths) {
  micro_batches.divide(batch_of(lengths, 2, true));
  std::vector<Index> begins;
  for (Index m = 0; m <= micro_batches.count(); ++m) begins.push_back(micro_batches.begin(m));
  return begins;
}

}  // namespace

TEST_SUITE_BEGIN("train/micro_batches");

TEST_CASE("sequences that follow one another run together up to 64 tokens, or a sixteenth of a step") {
  MicroBatches many(64, 1000, true);
  CHECK(begins_of(many, {30, 34, 1, 1000, 63, 1, 64, 20, 20, 20, 5}) == std::vector<Index>{0, 2, 3, 4, 6, 7, 10, 11});
  CHECK(begins_of(many, {100}) == std::vector<Index>{0, 1});
  CHECK(begins_of(many, std::vector<Index>(16, 4)).size() == 16 + 1);
  CHECK(begins_of(many, std::vector<Index>(40, 2)).size() == 20 + 1);  // 5 tokens are a sixteenth
  CHECK(many.capacity().tokens == 1000);
  CHECK(MicroBatches(64, 20, true).capacity().tokens == 64);
  CHECK(MicroBatches(64, 20, true).capacity().sequences == 64);
  CHECK(MicroBatches(8, 20, true).capacity().tokens == 20);
  CHECK(MicroBatches(8, 20, true).capacity().sequences == 10);
  MicroBatches apart(64, 1000, false);
  CHECK(begins_of(apart, std::vector<Index>(40, 20)).size() == 41);
  CHECK(apart.capacity().sequences == 1);
}

TEST_CASE("of sequences without tokens 64 run together") {
  const std::vector<Index> offsets(151, 7);
  std::vector<Index> begins{1, 2};
  detail::divide_sequences({offsets.data(), 150}, 0, begins);
  CHECK(begins == std::vector<Index>{0, 64, 128, 150});
}

TEST_CASE("steps of sequences together are those of single ones, with the same bits for any number of threads") {
  check_against_single_sequences<decoder>(32, false);
  check_against_single_sequences<classifier>(5, true);
}

TEST_CASE("a model that would mix the sequences of a batch sees one at a time") {
  check_against_single_sequences<centred>(32, false);
  check_against_single_sequences<scaled_back>(32, false);
}

TEST_CASE("limits change no bits, and neither do parts where no sequences run together") {
  const TokenBatch batch = batch_of(some_lengths(100), 32, false);
  const auto after_a_step = [&](Index most) {
    Trainer<decoder> trainer({.batch = most, .context = 24, .seed = 3});
    trainer.step(batch, AdamW{});
    return std::vector<float>(trainer.parameters().begin(), trainer.parameters().end());
  };
  CHECK(after_a_step(100) == after_a_step(1000));
  const TokenBatch long_ones = batch_of(std::vector<Index>(64, 24), 32, false);
  const auto whole = trained<decoder, float>(long_ones, {64}, 2, false);
  CHECK(trained<decoder, float>(long_ones, {1, 64}, 1, false) != whole);  // two run together: to rounding
  const TokenBatch few = part_of(long_ones, 0, 16, false);
  CHECK(trained<decoder, float>(few, {5, 16}, 1, false) == trained<decoder, float>(few, {16}, 2, false));
}

TEST_SUITE_END();
