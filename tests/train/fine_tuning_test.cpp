// SPDX-License-Identifier: MIT
//
// Fine-tuning: a model with one label for each sequence in the Trainer, from the checkpoint of its encoder on.

#include <simplx/io/checkpoint.hpp>
#include <simplx/models/classifier.hpp>
#include <simplx/train/masking.hpp>
#include <simplx/train/sentences.hpp>
#include <simplx/train/trainer.hpp>

#include "scratch.hpp"
#include "support.hpp"

using namespace simplx;

namespace {

inline constexpr Encoder body{.block = bert_sas_p, .vocab = 19, .width = 16, .heads = 2, .hidden = 32, .layers = 2,
                              .context = 16};
inline constexpr Classifier model{body, {.classes = 2, .dropout = 0}};
inline constexpr Classifier dropped = [] {
  Classifier classifier{body, {.classes = 2, .dropout = 0.1}};
  classifier.encoder.dropout = 0.1;
  return classifier;
}();
constexpr SentenceFormat format{.first = 16, .separator = 17, .context = 16};
constexpr std::int32_t masked = 18;

/// Pairs of sentences of 2 to 6 letters; class 1 if the letter 7 is in one of them.
TokenBatch pairs(int count, std::uint64_t seed) {
  TokenBatch batch;
  for (int n = 0; n < count; ++n) {
    const std::uint64_t key = bits(seed, static_cast<std::uint64_t>(n));
    const auto draw = [&](int i, std::uint64_t below) {
      return static_cast<std::int32_t>(bits(key, static_cast<std::uint64_t>(i)) % below);
    };
    std::vector<std::int32_t> sentences[2];
    for (int which : {0, 1}) {
      const int length = 2 + draw(which, 5);
      for (int i = 0; i < length; ++i) sentences[which].push_back(draw(10 * (which + 1) + i, 7));
    }
    const std::int32_t label = draw(2, 2);
    auto& sentence = sentences[draw(3, 2)];
    if (label) sentence[static_cast<std::size_t>(draw(4, sentence.size()))] = 7;
    append_pair(batch, format, sentences[0], sentences[1], label);
  }
  return batch;
}

double accuracy(auto& trainer, const TokenBatch& batch) {
  Index right = 0;
  for (Index s = 0; s < batch.sequences(); ++s) {
    const auto begin = static_cast<std::size_t>(batch.offsets[static_cast<std::size_t>(s)]);
    const auto end = static_cast<std::size_t>(batch.offsets[static_cast<std::size_t>(s) + 1]);
    const auto logits = trainer.logits(std::span(batch.tokens).subspan(begin, end - begin));
    REQUIRE(logits.size() == 2);
    right += (logits[1] > logits[0]) == (batch.labels[static_cast<std::size_t>(s)] == 1);
  }
  return static_cast<double>(right) / static_cast<double>(batch.sequences());
}

}  // namespace

TEST_SUITE_BEGIN("train/fine_tuning");

TEST_CASE("loss and gradient of a batch are the means over its sequences, of equal weight whatever their length") {
  Trainer<model, Cpu<double>> trainer({.batch = 8, .seed = 2});
  TokenBatch batch = pairs(8, 5);
  batch.labels[3] = ignored_label;
  std::vector<double> whole(trainer.parameters().size()), sum(whole.size()), one(whole.size());
  const StepResult result = trainer.loss_and_gradient(batch, whole);
  CHECK(result.labelled == 7);
  CHECK(result.loss == doctest::Approx(trainer.loss(batch)).epsilon(1e-14));
  double loss = 0;
  for (Index s = 0; s < 8; ++s) {
    const auto place = static_cast<std::size_t>(s);
    TokenBatch alone = batch;
    alone.offsets = {batch.offsets[place], batch.offsets[place + 1]};
    alone.labels = {batch.labels[place]};
    loss += trainer.loss_and_gradient(alone, one).loss / 7;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one[i] / 7;
  }
  CHECK(loss == doctest::Approx(result.loss).epsilon(1e-13));
  double apart = 0, largest = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    apart = std::max(apart, std::abs(sum[i] - whole[i])), largest = std::max(largest, std::abs(whole[i]));
  }
  CHECK(apart < 1e-13 * largest);
  CHECK(largest > 1e-3);
}

TEST_CASE("padding, and what else is in the batch, changes no bit of a step, a loss or a logit") {
  Trainer<dropped> one({.batch = 4, .seed = 2}), other({.batch = 4, .seed = 2, .threads = 2});
  const TokenBatch batch = pairs(4, 6);
  TokenBatch unpadded;  // from rows of one length
  for (std::size_t s = 0; s < 4; ++s) {
    std::vector<std::int32_t> row(batch.tokens.begin() + batch.offsets[s], batch.tokens.begin() + batch.offsets[s + 1]);
    row.resize(16, -1);
    const auto kept = without_padding(row, -1);
    unpadded.tokens.insert(unpadded.tokens.end(), kept.begin(), kept.end());
    unpadded.labels.push_back(batch.labels[s]);
    if (s == 0) unpadded.offsets.push_back(0);
    unpadded.offsets.push_back(std::ssize(unpadded.tokens));
  }
  for (int step = 0; step < 3; ++step) {
    one.step(batch, AdamW{}), other.step(unpadded, AdamW{});
    CHECK(std::ranges::equal(one.parameters(), other.parameters()));
  }
  double sum = 0;
  for (std::size_t s = 0; s < 4; ++s) {
    TokenBatch alone = batch;
    alone.offsets = {batch.offsets[s], batch.offsets[s + 1]};
    alone.labels = {batch.labels[s]};
    sum += one.loss(alone);
  }
  CHECK(one.loss(batch) == sum / 4);
}

TEST_CASE("the encoder's checkpoint gives the body, the head is drawn, and the task is learned to the last pair") {
  const test::Scratch folder;
  const auto path = folder.path / "body.safetensors";
  Trainer<body> pretraining({.batch = 32, .seed = 1});
  for (int step = 0; step < 20; ++step) {
    TokenBatch batch = pairs(32, static_cast<std::uint64_t>(1000 + step));
    mask_tokens(batch, {.mask_token = masked, .words = 16, .seed = 1}, 32 * step);
    pretraining.step(batch, AdamW{.learning_rate = 3e-3});
  }
  save_checkpoint(path, pretraining);

  Trainer<dropped> trainer({.batch = 32, .seed = 7});
  const std::vector<float> head(trainer.parameter("classifier.weight").begin(),
                                trainer.parameter("classifier.weight").end());
  const CheckpointDifferences found = load_body(path, trainer, {.missing = head_parameters()});
  CHECK(found.missing == std::vector<std::string>{"pooler.weight", "pooler.bias", "classifier.weight",
                                                  "classifier.bias"});
  CHECK(found.unexpected.empty());
  CHECK(std::ranges::equal(trainer.parameter("classifier.weight"), head));
  for (const TensorInfo& tensor : pretraining.tensors().parameters) {
    CHECK(std::ranges::equal(trainer.parameter(tensor.name), pretraining.parameter(tensor.name)));
  }

  const TokenBatch held_out = pairs(100, 2);
  CHECK(accuracy(trainer, held_out) < 0.8);
  for (int step = 0; step < 100; ++step) {
    trainer.step(pairs(32, static_cast<std::uint64_t>(10'000 + step)), AdamW{.learning_rate = 5e-3, .epsilon = 1e-6});
  }
  CHECK(accuracy(trainer, held_out) == 1);
}

TEST_SUITE_END();
