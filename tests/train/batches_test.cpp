// SPDX-License-Identifier: MIT
#include <simplx/train/batches.hpp>

#include <doctest/doctest.h>

#include <set>

using namespace simplx;

namespace {

/// Documents of 20, 3 and 14 bytes, byte i being i.
Corpus small_corpus() {
  Corpus corpus;
  for (int i = 0; i < 37; ++i) corpus.bytes.push_back(static_cast<std::uint8_t>(i));
  corpus.training = {{"a", 0, 20}, {"b", 20, 23}, {"c", 23, 37}};
  return corpus;
}

}  // namespace

TEST_SUITE_BEGIN("train/batches");

TEST_CASE("windows stay inside documents, and labels are the next bytes") {
  const Corpus corpus = small_corpus();
  Batches batches(corpus, corpus.training, 4, 2, 1);
  CHECK(batches.windows() == 4 + 0 + 3);  // 20 bytes: 0-4, 4-8, 8-12, 12-16; 14 bytes: three
  TokenBatch batch = make_batch(2, 4);
  batches.at(4, batch);
  CHECK(batch.tokens == std::vector<std::int32_t>{23, 24, 25, 26, 27, 28, 29, 30});
  CHECK(batch.labels == std::vector<std::int32_t>{24, 25, 26, 27, 28, 29, 30, 31});
  CHECK(batch.offsets == std::vector<Index>{0, 4, 8});
  batches.at(6, batch);
  CHECK(batch.offsets == std::vector<Index>{0, 4});  // the last batch may be shorter
}

TEST_CASE("an epoch visits every window once, in an order of its seed and its own") {
  const Corpus corpus = small_corpus();
  const auto epoch = [&](std::uint64_t seed, Index number) {
    Batches batches(corpus, corpus.training, 4, 1, seed);
    batches.seek(number * batches.windows());
    TokenBatch batch = make_batch(1, 4);
    std::vector<int> begins;
    for (Index i = 0; i < batches.windows(); ++i) {
      batches.next(batch);
      begins.push_back(batch.tokens[0]);
    }
    return begins;
  };
  const auto first = epoch(1, 0);
  CHECK(std::set<int>(first.begin(), first.end()) == std::set<int>{0, 4, 8, 12, 23, 27, 31});
  CHECK(first == epoch(1, 0));
  CHECK(first != epoch(1, 1));
  CHECK(first != epoch(2, 0));
}

TEST_CASE("filling a batch moves no memory") {
  const Corpus corpus = small_corpus();
  Batches batches(corpus, corpus.training, 4, 3, 1);
  TokenBatch batch = make_batch(3, 4);
  const auto *tokens = batch.tokens.data(), *labels = batch.labels.data();
  const auto* offsets = batch.offsets.data();
  for (int i = 0; i < 20; ++i) {
    batches.next(batch);
    REQUIRE(batch.tokens.size() == 12);
  }
  CHECK(batch.tokens.data() == tokens);
  CHECK(batch.labels.data() == labels);
  CHECK(batch.offsets.data() == offsets);
}

TEST_CASE("text shorter than the context is refused") {
  const Corpus corpus = small_corpus();
  CHECK_THROWS_WITH_AS(Batches(corpus, corpus.training, 20, 1, 1),
                       "the text is too short: no document has 21 bytes\n  hint: give more text, or a shorter context", Error);
}

TEST_SUITE_END();
