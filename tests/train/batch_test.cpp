// SPDX-License-Identifier: MIT
#include <simplx/train/batch.hpp>

#include <doctest/doctest.h>

using namespace simplx;

TEST_SUITE_BEGIN("train/batch");

TEST_CASE("sequences are packed one after the other, and those of a batch have the labels that count") {
  TokenBatch batch{{1, 2, 3}, {2, -100, 4}, {0, 2, 3}};
  CHECK(batch.offsets.back() == static_cast<Index>(batch.tokens.size()));
  CHECK(batch.sequences() == 2);
  CHECK(TokenBatch{}.sequences() == 0);
  CHECK(labelled_tokens(batch) == 2);
  batch.offsets = {2, 3};  // the last sequence alone, in place
  CHECK(labelled_tokens(batch) == 1);
}

TEST_CASE("each limit is kept, and the message says which is not") {
  const BatchLimits limits{.sequences = 2, .context = 2, .tokens = 5, .labels = 9};
  const auto check = [&](TokenBatch batch) { check_batch(batch, limits); };
  CHECK_NOTHROW(check({{4, 2, 3}, {8, -100, 4}, {0, 2, 3}}));
  for (const std::vector<Index>& none : {std::vector<Index>{}, {0}}) {
    CHECK_THROWS_WITH_AS(check({{1, 2}, {1, 2}, none}), doctest::Contains("the batch has no sequences"), Error);
  }
  CHECK_THROWS_WITH_AS(check({{1, 2, 3}, {1, 2, 3}, {0, 1, 2, 3}}), doctest::Contains("made for at most 2"), Error);
  CHECK_THROWS_WITH_AS(check({{1, 2, 3}, {1, 2, 3}, {0, 3}}), doctest::Contains("3 tokens for a context of 2"), Error);
  CHECK_THROWS_WITH_AS(check({{1, 2, 3}, {1, 2, 3}, {0, 0, 2}}), doctest::Contains("a sequence of 0 tokens"), Error);
  CHECK_THROWS_WITH_AS(check({{1, 2, 3}, {1, 2}, {0, 2, 3}}), doctest::Contains("2 labels for 3 tokens"), Error);
  CHECK_THROWS_WITH_AS(check({{1, 2, 3}, {1, 2, 3, 1}, {0, 2}}), doctest::Contains("4 labels for 3 tokens"), Error);
  const auto says = [](const char* words) { return doctest::Contains(words); };
  CHECK_THROWS_WITH_AS(check({{1, 2, 3}, {1, 2, 3}, {-1, 1, 3}}), says("offset 0 of the batch is -1, of 3"), Error);
  CHECK_THROWS_WITH_AS(check({{1, 2, 3}, {1, 2, 3}, {0, 2, 4}}), says("offset 2 of the batch is 4 after 2"), Error);
  CHECK_THROWS_WITH_AS(check({{1, 2, 3}, {1, 2, 3}, {2, 3, 1}}), says("offset 2 of the batch is 1 after 3"), Error);
  CHECK_THROWS_WITH_AS(check({{1, 5, 3}, {1, 2, 3}, {0, 2, 3}}),
                       doctest::Contains("token 5 at position 1, but the model knows 5 tokens"), Error);
  CHECK_THROWS_WITH_AS(check({{1, 2, 3}, {1, 2, 9}, {0, 2, 3}}),
                       doctest::Contains("token at position 2 has the label 9, but the model knows 9 classes"), Error);
  CHECK_THROWS_AS(check({{1, 2, 3}, {1, 2, -1}, {0, 2, 3}}), Error);
}

TEST_CASE("a label that a table is asked for cannot be ignored") {
  const BatchLimits limits{.sequences = 2, .context = 4, .tokens = 5, .labels = 9, .ignores = false};
  CHECK_NOTHROW(check_batch({{4, 2, 3}, {8, 0, 4}, {0, 2, 3}}, limits));
  CHECK_THROWS_WITH_AS(check_batch({{4, 2, 3}, {8, -100, 4}, {0, 2, 3}}, limits),
                       doctest::Contains("position 1 has the label -100, but the model knows 9 classes\n"
                                         "  hint: labels are in [0, classes); the model looks them up"),
                       Error);
  const std::vector<std::int32_t> tokens{3, 1};
  CHECK(unlabelled(tokens, 0).labels == std::vector<std::int32_t>{0, 0});
}

TEST_CASE("where a sequence has one label, labels are counted and checked by sequence") {
  const BatchLimits limits{.sequences = 3, .context = 4, .tokens = 5, .labels = 2, .labelled = Axis::sequences};
  const auto check = [&](TokenBatch batch) { check_batch(batch, limits); };
  TokenBatch batch{{1, 2, 3, 4, 0, 1}, {1, -100, 0}, {0, 3, 5, 6}};
  CHECK_NOTHROW(check(batch));
  CHECK(labelled_sequences(batch) == 2);
  batch.offsets = {3, 5};  // one sequence from the middle
  CHECK_THROWS_WITH_AS(check(batch), doctest::Contains("3 labels for 1 sequences"), Error);
  batch.labels = {1};
  CHECK_NOTHROW(check(batch));
  CHECK(labelled_sequences(batch) == 1);
  CHECK_THROWS_WITH_AS(check({{1, 2, 3}, {0}, {0, 2, 3}}), doctest::Contains("every sequence has one label"), Error);
  CHECK_THROWS_WITH_AS(check({{1, 2, 3}, {0, 2}, {0, 2, 3}}),
                       doctest::Contains("sequence 1 has the label 2, but the model knows 2 classes"), Error);
  CHECK_THROWS_AS(check({{1, 2, 3}, {-1, 1}, {0, 2, 3}}), Error);
  CHECK_THROWS_WITH_AS(check({{1, 5, 3}, {1, 1}, {0, 2, 3}}), doctest::Contains("token 5"), Error);
  CHECK_NOTHROW(check(unlabelled(std::span(batch.tokens).first(4), ignored_label, Axis::sequences)));
}

TEST_CASE("a sequence without labels") {
  const std::vector<std::int32_t> tokens{3, 1};
  const TokenBatch batch = unlabelled(tokens);
  CHECK(batch.tokens == tokens);
  CHECK(batch.offsets == std::vector<Index>{0, 2});
  CHECK(labelled_tokens(batch) == 0);
}

TEST_CASE("labels are counted in what is a batch alone") {
  CHECK(labelled_tokens({}) == 0);
  CHECK(labelled_sequences({}) == 0);
  CHECK_THROWS_WITH_AS(labelled_tokens({{1, 2}, {1}, {0, 2}}), doctest::Contains("1 labels for 2 tokens"), Error);
  CHECK_THROWS_AS(labelled_tokens({{1, 2}, {1, 2}, {0, 3}}), Error);
  CHECK_THROWS_AS(labelled_sequences({{1, 2}, {1}, {0, 1, 2}}), Error);
}

TEST_SUITE_END();
