// SPDX-License-Identifier: MIT
#include <simplx/train/sentences.hpp>

#include <doctest/doctest.h>

#include <numeric>

using namespace simplx;

namespace {
constexpr std::int32_t first = 90, separator = 91;

std::vector<std::int32_t> words(int count, std::int32_t from = 1) {
  std::vector<std::int32_t> result(static_cast<std::size_t>(count));
  std::iota(result.begin(), result.end(), from);
  return result;
}
/// How much is left of two sentences of so many words in a context.
std::pair<int, int> left(int a, int b, Index context) {
  TokenBatch batch;
  append_pair(batch, {first, separator, context}, words(a, 1), words(b, 51), 0);
  const auto at = std::ranges::find(batch.tokens, separator) - batch.tokens.begin();
  CHECK(batch.tokens.front() == first);
  CHECK(batch.tokens.back() == separator);
  for (std::ptrdiff_t i = 1; i < at; ++i) CHECK(batch.tokens[static_cast<std::size_t>(i)] == i);
  for (std::ptrdiff_t i = at + 1; i + 1 < std::ssize(batch.tokens); ++i) {
    CHECK(batch.tokens[static_cast<std::size_t>(i)] == 50 + i - at);
  }
  return {static_cast<int>(at) - 1, static_cast<int>(std::ssize(batch.tokens) - at) - 2};
}
}  // namespace

TEST_SUITE_BEGIN("train/sentences");

TEST_CASE("one sentence, two sentences, one after the other") {
  TokenBatch batch;
  const SentenceFormat format{first, separator, 8};
  append_sentence(batch, format, words(2), 1);
  append_pair(batch, format, words(1), words(3, 5), 0);
  append_sentence(batch, format, {}, ignored_label);
  CHECK(batch.tokens == std::vector<std::int32_t>{90, 1, 2, 91, 90, 1, 91, 5, 6, 7, 91, 90, 91});
  CHECK(batch.offsets == std::vector<Index>{0, 4, 11, 13});
  CHECK(batch.labels == std::vector<std::int32_t>{1, 0, -100});
  CHECK(labelled_sequences(batch) == 2);
}

TEST_CASE("what does not fit is cut off, of the longer sentence first") {
  TokenBatch batch;
  append_sentence(batch, {first, separator, 5}, words(9), 0);
  CHECK(batch.tokens == std::vector<std::int32_t>{90, 1, 2, 3, 91});
  CHECK(left(4, 3, 10) == std::pair(4, 3));
  CHECK(left(4, 9, 10) == std::pair(3, 4));  // of seven places the longer gets four
  CHECK(left(9, 4, 10) == std::pair(4, 3));
  CHECK(left(9, 9, 10) == std::pair(3, 4));
  CHECK(left(2, 9, 10) == std::pair(2, 5));
  CHECK(left(9, 2, 10) == std::pair(5, 2));
  CHECK(left(9, 9, 3) == std::pair(0, 0));
}

TEST_CASE("rows that were padded lose the padding at their end, and that alone") {
  const std::vector<std::int32_t> row{0, 5, 0, 6, 0, 0}, nothing{0, 0};
  CHECK(without_padding(row, 0).size() == 4);
  CHECK(without_padding(row, 0).data() == row.data());
  CHECK(without_padding(row, 6).size() == 6);
  CHECK(without_padding(nothing, 0).empty());
}

TEST_CASE("a context must have room for what is not a sentence") {
  TokenBatch batch;
  CHECK_THROWS_WITH_AS(append_sentence(batch, {first, separator, 1}, {}, 0), doctest::Contains("alone take 2"), Error);
  CHECK_THROWS_WITH_AS(append_pair(batch, {first, separator, 2}, {}, {}, 0), doctest::Contains("alone take 3"), Error);
  CHECK(batch.tokens.empty());
}

TEST_SUITE_END();
