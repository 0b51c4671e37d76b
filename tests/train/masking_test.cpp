// SPDX-License-Identifier: MIT
#include <simplx/train/masking.hpp>

#include <doctest/doctest.h>

using namespace simplx;

namespace {

/// Sequences of these lengths: tokens 0, 1, 2, ... of each, labelled with something else.
TokenBatch text(std::initializer_list<Index> lengths) {
  TokenBatch batch;
  batch.offsets = {0};
  for (const Index length : lengths) {
    for (Index i = 0; i < length; ++i) batch.tokens.push_back(static_cast<std::int32_t>(i)), batch.labels.push_back(7);
    batch.offsets.push_back(batch.offsets.back() + length);
  }
  return batch;
}

struct Counts {
  Index labelled = 0, masked = 0, changed = 0;
  bool operator==(const Counts&) const = default;
};
/// Of one sequence; its tokens are their own places.
Counts count(const TokenBatch& batch, std::size_t sequence, std::int32_t mask) {
  Counts counts;
  const auto begin = static_cast<std::size_t>(batch.offsets[sequence]);
  for (std::size_t i = begin; i < static_cast<std::size_t>(batch.offsets[sequence + 1]); ++i) {
    const auto was = static_cast<std::int32_t>(i - begin);
    CHECK((batch.labels[i] == was || batch.labels[i] == -100));
    if (batch.labels[i] == -100) CHECK(batch.tokens[i] == was);
    counts.labelled += batch.labels[i] != -100;
    counts.masked += batch.tokens[i] == mask;
    counts.changed += batch.tokens[i] != was && batch.tokens[i] != mask;
  }
  return counts;
}

}  // namespace

TEST_SUITE_BEGIN("train/masking");

TEST_CASE("exactly 32 of 128 tokens are labelled: 25 or 26 masked, 3 or 4 replaced, the others as they are") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    TokenBatch batch = text({128, 128});
    mask_tokens(batch, {.mask_token = 1000, .words = 1 << 20, .seed = seed}, 0);  // among so many none is drawn twice
    for (const std::size_t s : {0, 1}) {
      const Counts counts = count(batch, s, 1000);
      CHECK(counts.labelled == 32);
      CHECK((counts.masked == 25 || counts.masked == 26));
      CHECK((counts.changed == 3 || counts.changed == 4));
    }
  }
}

TEST_CASE("of each sequence its own share, rounded; of its labels 80 % and 10 % over many of them") {
  TokenBatch batch = text({1, 2, 7, 30, 64});
  mask_tokens(batch, {.share = 0.15, .mask_token = 1000, .words = 1 << 20}, 0);
  const Index labelled[] = {0, 0, 1, 5, 10};
  for (std::size_t s = 0; s < 5; ++s) CHECK(count(batch, s, 1000).labelled == labelled[s]);
  for (const Index length : {2, 8, 12, 20}) {
    constexpr int sequences = 20000;
    Counts all;
    for (int s = 0; s < sequences; ++s) {
      TokenBatch one = text({length});
      mask_tokens(one, {.share = 0.5, .mask_token = 1000, .words = 1 << 20}, s);
      const Counts counts = count(one, 0, 1000);
      CHECK(counts.labelled == length / 2);
      all.labelled += counts.labelled, all.masked += counts.masked, all.changed += counts.changed;
    }
    const auto share = [&](Index of) { return static_cast<double>(of) / static_cast<double>(all.labelled); };
    CHECK(std::abs(share(all.masked) - 0.8) < 0.015);
    CHECK(std::abs(share(all.changed) - 0.1) < 0.015);
  }
}

TEST_CASE("halves that are no whole numbers are no more than there is") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    TokenBatch batch = text({3});
    mask_tokens(batch, {.share = 1, .masked = 0.5, .replaced = 0.5, .mask_token = 1000, .words = 1 << 20, .seed = seed},
                0);
    const Counts counts = count(batch, 0, 1000);
    CHECK(counts.masked + counts.changed == 3);
    CHECK((counts.masked == 1 || counts.masked == 2));
  }
}

TEST_CASE("a sequence of a run is masked alike in any batch, and another one differently") {
  const Masking masking{.mask_token = 1000, .words = 1000, .seed = 3};
  TokenBatch both = text({64, 64}), second = text({64}), again = text({64, 64});
  mask_tokens(both, masking, 10);
  mask_tokens(second, masking, 11);
  mask_tokens(again, masking, 10);
  CHECK(both.tokens == again.tokens);
  CHECK(std::equal(second.tokens.begin(), second.tokens.end(), both.tokens.begin() + 64));
  CHECK(!std::equal(second.labels.begin(), second.labels.end(), both.labels.begin()));
  TokenBatch other = text({64});
  mask_tokens(other, {.mask_token = 1000, .words = 1000, .seed = 4}, 11);
  CHECK(other.labels != second.labels);
}

TEST_CASE("every place is labelled, masked and replaced equally often") {
  constexpr int trials = 4000;
  std::vector<int> labelled(16), masked(16), replaced(16);
  for (int trial = 0; trial < trials; ++trial) {
    TokenBatch batch = text({16});
    mask_tokens(batch, {.share = 0.5, .masked = 0.5, .replaced = 0.25, .mask_token = 1000, .words = 1 << 20}, trial);
    for (std::size_t i = 0; i < 16; ++i) {
      labelled[i] += batch.labels[i] != -100;
      masked[i] += batch.tokens[i] == 1000;
      replaced[i] += batch.tokens[i] != 1000 && batch.tokens[i] != static_cast<std::int32_t>(i);
    }
  }
  for (std::size_t i = 0; i < 16; ++i) {  // deviations: at most 0.5 / sqrt(4000) = 0.008
    CHECK(std::abs(labelled[i] - 0.5 * trials) < 0.04 * trials);
    CHECK(std::abs(masked[i] - 0.25 * trials) < 0.04 * trials);
    CHECK(std::abs(replaced[i] - 0.125 * trials) < 0.04 * trials);
  }
}

TEST_CASE("a batch without labels is given some") {
  const Masking masking{.share = 0.5, .mask_token = 1000, .words = 1000, .seed = 3};
  TokenBatch labelled = text({20, 10}), bare = labelled;
  bare.labels.clear();
  mask_tokens(labelled, masking, 0);
  mask_tokens(bare, masking, 0);
  CHECK(bare.labels == labelled.labels);
  CHECK(bare.tokens == labelled.tokens);
  bare = {text({8}).tokens, {}, {2, 6}};  // one sequence from the middle
  mask_tokens(bare, masking, 0);
  CHECK(bare.labels.size() == 8);
  for (const std::size_t outside : {0, 1, 6, 7}) CHECK(bare.labels[outside] == ignored_label);
  CHECK(labelled_tokens(bare) == 2);
}

TEST_CASE("sequences that are not among the tokens are refused, and nothing changes") {
  const TokenBatch good = text({4});
  for (const std::vector<Index>& offsets : {std::vector<Index>{0, 5}, {-1, 4}, {0, 3, 2}, {3, 1}}) {
    TokenBatch batch{good.tokens, {}, offsets};
    CHECK_THROWS_WITH_AS(mask_tokens(batch, {}, 0), doctest::Contains("of 4 tokens"), Error);
    CHECK(batch.tokens == good.tokens);
    CHECK(batch.labels.empty());
  }
  TokenBatch nothing;
  mask_tokens(nothing, {}, 0);
  CHECK(nothing.labels.empty());
}

TEST_CASE("shares that are none are refused") {
  TokenBatch batch = text({4});
  CHECK_THROWS_WITH_AS(mask_tokens(batch, {.share = 1.5}, 0), doctest::Contains("1.5"), Error);
  CHECK_THROWS_AS(mask_tokens(batch, {.share = std::nan("")}, 0), Error);
  CHECK_THROWS_WITH_AS(mask_tokens(batch, {.masked = 0.8, .replaced = 0.3}, 0), doctest::Contains("together"), Error);
  CHECK_THROWS_WITH_AS(mask_tokens(batch, {.words = 0}, 0), doctest::Contains("words is 0"), Error);
}

TEST_SUITE_END();
