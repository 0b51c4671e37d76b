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

// Whose tokens would be gone.
static_assert(!std::is_constructible_v<Batches, Corpus, std::vector<Document>, BatchesOptions>);
static_assert(std::is_constructible_v<Batches, const Corpus&, std::vector<Document>, BatchesOptions>);

TEST_SUITE_BEGIN("train/batches");

TEST_CASE("windows stay inside documents, and labels are the next bytes") {
  const Corpus corpus = small_corpus();
  Batches batches(corpus, corpus.training, {.context = 4, .sequences = 2, .seed = 1});
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
    Batches batches(corpus, corpus.training, {.context = 4, .sequences = 1, .seed = seed});
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

TEST_CASE("a saved position gives the batches that would have come, over the end of an epoch, whatever was before") {
  const Corpus corpus = small_corpus();
  for (const int handed_out : {0, 1, 3, 4, 9}) {  // batches of 2 out of 7 windows
    CAPTURE(handed_out);
    const BatchesOptions options{.context = 4, .sequences = 2, .seed = 5};
    Batches one(corpus, corpus.training, options), other(corpus, corpus.training, options);
    TokenBatch a = make_batch(2, 4), b = make_batch(2, 4);
    for (int i = 0; i < handed_out; ++i) one.next(a);
    const BatchesState state = one.state();
    CHECK(state == BatchesState{static_cast<std::uint64_t>(handed_out * 2 / 7),
                                static_cast<std::uint64_t>(handed_out * 2 % 7), 7, 4, 5});
    for (int i = 0; i < 6; ++i) other.next(b);  // somewhere else, in the shuffle of another epoch
    other.restore(state);
    CHECK(other.state() == state);
    for (int i = 0; i < 8; ++i) {
      one.next(a), other.next(b);
      REQUIRE(a.tokens == b.tokens);
    }
  }
}

TEST_CASE("a position in other data is refused, and nothing changes") {
  const Corpus corpus = small_corpus();
  Batches batches(corpus, corpus.training, {.context = 4, .sequences = 1, .seed = 5});
  batches.seek(9);
  const auto refused = [&](BatchesState state, const char* reason) {
    CHECK_THROWS_WITH_AS(batches.restore(state), doctest::Contains(reason), Error);
    CHECK(batches.position() == 9);
  };
  refused({0, 0, 8, 4, 5}, "saved with number of windows 8, here it is 7");
  refused({0, 0, 7, 3, 5}, "saved with context 3, here it is 4");
  refused({0, 0, 7, 4, 6}, "saved with seed 6, here it is 5");
  refused({0, 7, 7, 4, 5}, "window 7 of epoch 0 is no position in 7 windows");
  refused({~std::uint64_t{0} / 7, 0, 7, 4, 5}, "is no position in 7 windows");
}

TEST_CASE("filling a batch moves no memory") {
  const Corpus corpus = small_corpus();
  Batches batches(corpus, corpus.training, {.context = 4, .sequences = 3, .seed = 1});
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

TEST_CASE("tokens of two and four bytes come where they lie, aligned or not") {
  const Corpus corpus = small_corpus();
  const auto check = [&](auto number) {
    using T = decltype(number);
    std::vector<std::byte> bytes(1 + 37 * sizeof(T));
    for (std::size_t i = 0; i < 37; ++i) {
      const T token = static_cast<T>(1000 + i);
      std::memcpy(bytes.data() + 1 + i * sizeof(T), &token, sizeof(T));
    }
    const BatchesOptions options{.context = 4, .sequences = 2, .seed = 5};
    Batches wide(TokenView(std::span<const std::byte>(bytes).subspan(1), sizeof(T)), corpus.training, options);
    Batches narrow(corpus, corpus.training, options);
    TokenBatch a = make_batch(2, 4), b = make_batch(2, 4);
    for (int i = 0; i < 9; ++i) {
      wide.next(a), narrow.next(b);
      for (std::size_t k = 0; k < 8; ++k) {
        REQUIRE(a.tokens[k] == 1000 + b.tokens[k]);
        REQUIRE(a.labels[k] == 1000 + b.labels[k]);
      }
    }
  };
  check(std::uint16_t{});
  check(std::uint32_t{});
}

TEST_CASE("the order of the windows is pinned: a run of today can be repeated tomorrow") {
  const Corpus corpus = small_corpus();
  Batches batches(corpus, corpus.training, {.context = 4, .sequences = 7, .seed = 1});
  TokenBatch batch = make_batch(7, 4);
  const auto begins = [&] {
    batches.next(batch);
    std::vector<int> found;
    for (int i = 0; i < 7; ++i) found.push_back(batch.tokens[static_cast<std::size_t>(4 * i)]);
    return found;
  };
  CHECK(begins() == std::vector<int>{0, 12, 4, 23, 31, 8, 27});
  CHECK(begins() == std::vector<int>{12, 0, 4, 31, 8, 23, 27});
}

TEST_CASE("text shorter than the context is refused") {
  const Corpus corpus = small_corpus();
  CHECK_THROWS_WITH_AS(Batches(corpus, corpus.training, {.context = 20, .sequences = 1, .seed = 1}),
                       "the text is too short: no document has 21 tokens\n  hint: give more text, or a shorter context",
                       Error);
}

TEST_CASE("a context below one is refused") {
  const Corpus corpus = small_corpus();
  for (const Index context : {0, -1, -5}) {
    CHECK_THROWS_WITH_AS(Batches(corpus, corpus.training, {.context = context, .sequences = 1, .seed = 1}),
                         doctest::Contains(("windows is " + std::to_string(context) + "\n  hint: ").c_str()), Error);
  }
}

TEST_CASE("places before the first, batches of nothing and documents beyond the tokens are refused") {
  const Corpus corpus = small_corpus();
  CHECK_THROWS_WITH_AS(Batches(corpus, corpus.training, {.context = 4, .sequences = 0}),
                       doctest::Contains("batch is of 0 sequences"), Error);
  const Index end = corpus.tokens().size() + 1;
  for (const Document& document : {Document{"a", 0, end}, Document{"a", -1, 20}, Document{"a", 20, 10}}) {
    CHECK_THROWS_WITH_AS(Batches(corpus, {document}, {.context = 4}), doctest::Contains("a document is from token "),
                         Error);
  }
  Batches batches(corpus, corpus.training, {.context = 4, .sequences = 2, .seed = 1});
  TokenBatch batch = make_batch(2, 4);
  CHECK_THROWS_WITH_AS(batches.seek(-3), doctest::Contains("position -3 of the data"), Error);
  CHECK_THROWS_WITH_AS(batches.seek(std::numeric_limits<Index>::max() - 1), doctest::Contains("of the data"), Error);
  CHECK_THROWS_WITH_AS(batches.at(-1, batch), doctest::Contains("window -1 of the data"), Error);
  batches.at(std::numeric_limits<Index>::max(), batch);
  CHECK(batch.sequences() == 0);
  CHECK_THROWS_WITH_AS(make_batch(-1, 3), doctest::Contains("no room for -1 sequences of 3 tokens"), Error);
  constexpr Index many = Index{1} << 40;
  CHECK_THROWS_WITH_AS(make_batch(many, many), doctest::Contains("no memory holds as many"), Error);
}

TEST_CASE("more windows than can be ordered are refused before memory is asked for") {
  const std::byte byte{};  // is not looked at
  const TokenView tokens(std::span(&byte, std::size_t{1} << 34), 2);
  CHECK_THROWS_WITH_AS(Batches(tokens, {{"a", 0, (Index{1} << 32) + 2}}, {.context = 1}),
                       doctest::Contains("the text is too long: 4294967297 windows"), Error);
}

TEST_SUITE_END();
