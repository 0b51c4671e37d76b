// SPDX-License-Identifier: MIT
#include <simplx/io/tokenizer.hpp>

#include "golden_tokens.hpp"
#include "scratch.hpp"

#include <simplx/core/random.hpp>
#include <simplx/io/tokenizer_file.hpp>
#include <simplx/io/train_tokenizer.hpp>

using namespace simplx;
using test::message_of;

namespace {

using Tokens = std::vector<std::int32_t>;

std::vector<std::string> bytes_and(std::vector<std::string> more) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

/// The definition: of all pairs in a word the one whose merge is first, from left to right, until there is none.
Tokens by_definition(const Tokenizer& tokenizer, std::string_view text) {
  Tokens all;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, detail::first_piece(text));
    text.remove_prefix(word.size());
    std::vector<std::string> symbols;
    for (const char byte : word) symbols.emplace_back(1, byte);
    const auto merge_first = [&] {
      for (Index m = 0; m < tokenizer.merge_count(); ++m) {
        const auto [left, right] = tokenizer.merge(m);
        for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
          if (symbols[i] != tokenizer.bytes(left) || symbols[i + 1] != tokenizer.bytes(right)) continue;
          symbols[i] += symbols[i + 1];
          symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(i) + 1);
          return true;
        }
      }
      return false;
    };
    while (merge_first()) {
    }
    for (const std::string& symbol : symbols) {
      std::int32_t token = 0;
      while (tokenizer.bytes(token) != symbol) ++token;
      all.push_back(token);
    }
  }
  return all;
}

}  // namespace

TEST_SUITE_BEGIN("io/tokenizer");

TEST_CASE("without merges a token is a byte") {
  const Tokenizer bytes;
  CHECK(bytes.size() == 256);
  CHECK(bytes.specials().empty());
  CHECK(bytes.encode("aé\n") == Tokens{'a', 0xC3, 0xA9, '\n'});
  CHECK(bytes.encode("").empty());
  CHECK(bytes.decode({}).empty());
}

TEST_CASE("the tokens are those of Hugging Face's tokenizers") {
  const test::GoldenTokens golden = test::golden_tokens();
  const Tokenizer tokenizer = load_tokenizer(test::golden_tokenizer());
  CHECK(tokenizer.encode(golden.learnt) == golden.learnt_tokens);
  CHECK(tokenizer.encode(golden.unseen) == golden.unseen_tokens);
  CHECK(tokenizer.decode(golden.unseen_tokens) == golden.unseen);
}

TEST_CASE("merges are made in their order, from left to right, and never across words") {
  const TokenMerge merges[] = {{'a', 'a'}, {'b', 'c'}, {'a', 'b'}, {258, 'c'}, {256, 256}};
  const Tokenizer tokenizer(bytes_and({"aa", "bc", "ab", "abc", "aaaa"}), merges);
  CHECK(tokenizer.encode("aaa") == Tokens{256, 'a'});
  CHECK(tokenizer.encode("aaaaa") == Tokens{260, 'a'});
  CHECK(tokenizer.encode("abc") == Tokens{'a', 257});  // "ab" comes later, and "abc" after it
  CHECK(tokenizer.encode("ab") == Tokens{258});
  CHECK(tokenizer.encode("a a") == Tokens{'a', ' ', 'a'});
  CHECK(tokenizer.merge_count() == 5);
  for (const std::string_view text : {"aaabcabaabca", "abcabc aaaaaaaab", "bcaabcaaa"}) {
    CHECK(tokenizer.encode(text) == by_definition(tokenizer, text));
  }
}

TEST_CASE("any bytes are encoded as the definition says, and come back") {
  std::string learnt;
  for (std::uint64_t i = 0; i < 3000; ++i) learnt += static_cast<char>("aabcd e"[bits(1, i) % 7]);
  const std::string_view texts[] = {learnt};
  const Tokenizer tokenizer = train_tokenizer(texts, {.vocab = 330});
  REQUIRE(tokenizer.size() == 330);
  for (std::uint64_t round = 0; round < 200; ++round) {
    std::string text;
    const std::uint64_t length = bits(2, round) % 60;
    for (std::uint64_t i = 0; i < length; ++i) {
      const std::uint64_t drawn = bits(3 + round, i);
      text += drawn % 10 == 0 ? static_cast<char>(drawn >> 32) : "aabcd e"[drawn / 10 % 7];
    }
    const Tokens tokens = tokenizer.encode(text);
    CHECK(tokens == by_definition(tokenizer, text));
    CHECK(tokenizer.decode(tokens) == text);
  }
}

TEST_CASE("pairs of a large vocabulary are told apart") {
  std::vector<std::string> more;
  for (int i = 256; i < 70'000; ++i) more.push_back("<" + std::to_string(i) + ">");
  std::vector<TokenMerge> merges{{'a', 'b'}};
  more.push_back("ab");
  for (int i = 8; i < 17; ++i) {  // the same as {'a', 'b'} for keys in which a token has i bits
    merges.push_back({'a', 'b' | 1 << i});
    more.push_back("a" + more[static_cast<std::size_t>(merges.back().right - 256)]);
  }
  CHECK(message_of([&] { Tokenizer(bytes_and(more), merges); }) == "no error");
}

TEST_CASE("a word of a million letters takes no longer than its letters") {
  const TokenMerge merges[] = {{'a', 'a'}, {256, 256}, {257, 257}};
  const Tokenizer tokenizer(bytes_and({"aa", "aaaa", "aaaaaaaa"}), merges);
  const Tokens tokens = tokenizer.encode(std::string(1'000'003, 'a'));  // hours, if each merge went through the word
  CHECK(tokens.size() == 125'002);
  CHECK(tokens.front() == 258);
  CHECK(Tokens(tokens.end() - 3, tokens.end()) == Tokens{258, 256, 'a'});
}

TEST_CASE("no text has the special tokens, which have names") {
  const Tokenizer tokenizer(bytes_and({"<|end|>", "ab"}), std::vector<TokenMerge>{{'a', 'b'}});
  CHECK(tokenizer.special("<|end|>") == 256);
  CHECK_FALSE(tokenizer.special("ab").has_value());
  CHECK_FALSE(tokenizer.special("<|end").has_value());
  CHECK(tokenizer.specials().size() == 1);
  CHECK(tokenizer.encode("<|end|>") == Tokens{'<', '|', 'e', 'n', 'd', '|', '>'});
  CHECK(tokenizer.decode(Tokens{256, 257}) == "<|end|>ab");
}

TEST_CASE("what is no tokenizer is refused") {
  using Merges = std::vector<TokenMerge>;
  const auto refusal = [](std::vector<std::string> tokens, const Merges& merges) {
    return message_of([&] { Tokenizer(std::move(tokens), merges); });
  };
  CHECK(refusal(bytes_and({"ab"}), {{'a', 'b'}}) == "no error");
  CHECK(refusal(bytes_and({""}), {}).find("token 256 has no bytes") == 0);
  CHECK(refusal(bytes_and({"x"}), {}).find("tokens 120 and 256 are both 'x'") == 0);
  CHECK(refusal({"a", "b"}, {}).find("byte 0 has no token") == 0);
  CHECK(refusal(bytes_and({"ab"}), {{'a', 'c'}}).find("merge 0 makes 'ac', which is no token") == 0);
  CHECK(refusal(bytes_and({"ab"}), {{'a', 'b'}, {'a', 'b'}}).find("merge 1, of 'ab', is there twice") == 0);
  CHECK(refusal(bytes_and({"ab"}), {{'a', 300}}).find("token 300, but the tokenizer has 257") == 0);
  const Tokenizer bytes;
  for (const std::int32_t token : {-1, 256}) {
    CHECK(message_of([&] { bytes.decode(std::span(&token, 1)); })
              .find("token " + std::to_string(token) + ", but the tokenizer has 256") == 0);
  }
}

TEST_SUITE_END();
