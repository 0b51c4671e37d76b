// SPDX-License-Identifier: MIT
#include <simplx/io/train_tokenizer.hpp>

#include "golden_tokens.hpp"
#include "scratch.hpp"

#include <simplx/core/random.hpp>
#include <simplx/io/tokenizer_file.hpp>

#include <map>

using namespace simplx;
using test::message_of;

namespace {

using Names = std::vector<std::pair<std::string, std::string>>;

Names merges_of(const Tokenizer& tokenizer) {
  Names merges;
  for (Index i = 0; i < tokenizer.merge_count(); ++i) {
    const auto [left, right] = tokenizer.merge(i);
    merges.emplace_back(tokenizer.bytes(left), tokenizer.bytes(right));
  }
  return merges;
}

/// The algorithm as it is written: all pairs are counted again for each merge.
Names by_definition(std::string_view text, std::size_t count) {
  std::vector<std::vector<std::string>> words;
  while (!text.empty()) {
    const std::size_t piece = detail::first_piece(text);
    auto& word = words.emplace_back();
    for (const char byte : text.substr(0, piece)) word.emplace_back(1, byte);
    text.remove_prefix(piece);
  }
  std::map<std::string, int> order;
  for (const std::uint8_t byte : detail::bytes_by_character) {
    order.emplace(std::string(1, static_cast<char>(byte)), static_cast<int>(order.size()));
  }
  Names merges;
  while (merges.size() < count) {
    std::map<std::pair<int, int>, std::pair<int, std::pair<std::string, std::string>>> pairs;
    for (const auto& word : words) {
      for (std::size_t i = 1; i < word.size(); ++i) {
        auto& [number, names] = pairs[{order.at(word[i - 1]), order.at(word[i])}];
        ++number, names = {word[i - 1], word[i]};
      }
    }
    const auto more = [](const auto& a, const auto& b) { return a.second.first < b.second.first; };
    const auto best = std::max_element(pairs.begin(), pairs.end(), more);  // the first of several
    if (best == pairs.end() || best->second.first < 2) break;
    const auto [left, right] = best->second.second;
    merges.emplace_back(left, right);
    order.emplace(left + right, static_cast<int>(order.size()));
    for (auto& word : words) {
      for (std::size_t i = 0; i + 1 < word.size(); ++i) {
        if (word[i] != left || word[i + 1] != right) continue;
        word[i] += right;
        word.erase(word.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
  return merges;
}

}  // namespace

TEST_SUITE_BEGIN("io/train_tokenizer");

TEST_CASE("the merges are those that Hugging Face's BpeTrainer learns") {
  const test::GoldenTokens golden = test::golden_tokens();
  const Tokenizer theirs = load_tokenizer(test::golden_tokenizer());
  const std::string_view texts[] = {golden.learnt};
  const Tokenizer ours = train_tokenizer(texts, {.vocab = 600});
  CHECK(ours.size() == 600);
  CHECK(merges_of(ours) == merges_of(theirs));
  CHECK(ours.special("<|endoftext|>") == 599);
  CHECK(ours.decode(ours.encode(golden.unseen)) == golden.unseen);
}

TEST_CASE("the merges are those of the algorithm as it is written, repetitions and ties among them") {
  for (std::uint64_t round = 0; round < 12; ++round) {
    const std::uint64_t letters = 2 + bits(1, round) % 4;
    std::string text;
    for (std::uint64_t i = 0; i < 400; ++i) {
      const std::uint64_t drawn = bits(2 + round, i);
      text += drawn % 9 == 0 ? ' ' : static_cast<char>((drawn % 5 == 0 ? 0xE0u : 'a') + drawn / 64 % letters);
    }
    const std::string_view texts[] = {text};
    CAPTURE(text);
    CHECK(merges_of(train_tokenizer(texts, {.vocab = 256 + 40, .specials = {}})) == by_definition(text, 40));
  }
}

TEST_CASE("bytes are their own tokens, merges and special tokens follow") {
  const std::string_view texts[] = {"aab aab", "aab"};
  const Tokenizer tokenizer = train_tokenizer(texts, {.vocab = 260, .specials = {"<|a|>", "<|b|>"}});
  CHECK(merges_of(tokenizer) == Names{{"a", "a"}, {"aa", "b"}});
  CHECK(tokenizer.bytes(256) == "aa");
  CHECK(tokenizer.bytes(257) == "aab");
  CHECK(tokenizer.special("<|a|>") == 258);
  CHECK(tokenizer.special("<|b|>") == 259);
  for (int byte = 0; byte < 256; ++byte) CHECK(tokenizer.bytes(byte) == std::string(1, static_cast<char>(byte)));
}

TEST_CASE("rare pairs are no tokens; the order of texts, and where they are cut into texts, change nothing") {
  const std::string_view texts[] = {"one two", " two three", " three three"};
  const Names merges = merges_of(train_tokenizer(texts));
  CHECK(merges.size() == 5 + 2);  // " three"; " two", which begins with the same
  CHECK(merges_of(train_tokenizer(texts, {.least_count = 3})).size() == 5);
  for (const Index least : {-1, 0}) {
    CHECK(merges_of(train_tokenizer(texts, {.least_count = least})) ==
          merges_of(train_tokenizer(texts, {.least_count = 1})));
  }
  CHECK(train_tokenizer({}).size() == 257);
  const std::string_view words[] = {" three", "one", " two", " three", " three", " two"};
  CHECK(merges_of(train_tokenizer(words)) == merges);
}

TEST_CASE("what cannot be learnt is refused") {
  const std::string_view texts[] = {"end end end"};
  CHECK(message_of([&] { train_tokenizer(texts, {.vocab = 256}); })
            .find("a vocabulary of 256 has no room for 256 bytes and 1 special tokens\n  hint: give at least 257") ==
        0);
  CHECK(train_tokenizer(texts, {.vocab = 256, .specials = {}}).size() == 256);
  CHECK(message_of([&] { train_tokenizer(texts, {.specials = {"end"}}); }).find("are both 'end'") != std::string::npos);
}

TEST_SUITE_END();
