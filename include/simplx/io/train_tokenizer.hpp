// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/train_tokenizer.hpp
/// Learns a tokenizer from texts: of all pairs of neighbouring tokens within words the most frequent one becomes a
/// token, again and again, until the vocabulary is full. Of pairs as frequent as each other that of the earlier tokens
/// is first; bytes come in the order of their characters (io/byte_characters.hpp).
///
/// Source  Sennrich et al. 2016, Algorithm 1; Radford et al. 2019, Sec. 2.2. Its merges are those of Hugging Face's
///         BpeTrainer

#include <simplx/io/byte_characters.hpp>
#include <simplx/io/tokenizer.hpp>

#include <algorithm>

namespace simplx::inline SIMPLX_TARGET {

/// What a tokenizer is to be.
struct TokenizerOptions {
  Index vocab = 4096;  ///< tokens at most: 256 bytes, those that merges make, and special ones
  std::vector<std::string> specials = {"<|endoftext|>"};  ///< names of tokens that no text has, the last of them all
  Index least_count = 2;  ///< a pair that is less frequent in all texts is no token, nor is one that they do not have
};

namespace detail {

/// The words of texts as tokens, and the pairs in them. Tokens are numbered in the order in which they were made.
class TokenPairs {
 public:
  explicit TokenPairs(std::span<const std::string_view> texts) {
    std::unordered_map<std::string_view, Index> counts;
    for (std::string_view text : texts) {
      while (!text.empty()) {
        const std::size_t piece = first_piece(text);
        ++counts[text.substr(0, piece)];
        text.remove_prefix(piece);
      }
    }
    std::array<std::int32_t, 256> numbers{};
    for (std::int32_t i = 0; i < 256; ++i) numbers[bytes_by_character[static_cast<std::size_t>(i)]] = i;
    for (const auto& [text, count] : counts) {
      Word& word = words_.emplace_back();
      word.count = count;
      for (const char byte : text) word.tokens.push_back(numbers[static_cast<std::uint8_t>(byte)]);
      const auto number = static_cast<std::uint32_t>(words_.size() - 1);
      for (std::size_t i = 1; i < word.tokens.size(); ++i) {
        count_pair(word.tokens[i - 1], word.tokens[i], number, count);
      }
    }
    offer_counted();
  }

  /// The most frequent pair; none where the most frequent is less frequent than that.
  std::optional<TokenMerge> most_frequent(Index least) {
    while (!offers_.empty()) {
      const Offer best = offers_.top();
      const Index count = pairs_.at(best.pair).count;
      if (count == best.count) {
        if (count < least) return {};
        return TokenMerge{static_cast<std::int32_t>(best.pair >> 32), static_cast<std::int32_t>(best.pair)};
      }
      offers_.pop();
      if (count < best.count) offers_.push({count, best.pair});  // of what became more frequent there is a later offer
    }
    return {};
  }

  /// That pair becomes one token, `result`, wherever it is.
  void merge(TokenMerge pair, std::int32_t result) {
    Pair& merged = pairs_.at(key(pair.left, pair.right));
    for (const std::uint32_t number : std::exchange(merged.words, {})) {
      Word& word = words_[number];
      const auto change = [&](std::int32_t left, std::int32_t right, Index by) {
        count_pair(left, right, number, by * word.count);
      };
      auto& tokens = word.tokens;
      std::size_t kept = 0;
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (i + 1 == tokens.size() || tokens[i] != pair.left || tokens[i + 1] != pair.right) {
          tokens[kept++] = tokens[i];
          continue;
        }
        if (kept > 0) change(tokens[kept - 1], pair.left, -1), change(tokens[kept - 1], result, 1);
        if (++i + 1 < tokens.size()) change(pair.right, tokens[i + 1], -1), change(result, tokens[i + 1], 1);
        tokens[kept++] = result;
      }
      tokens.resize(kept);
    }
    pairs_.at(key(pair.left, pair.right)).count = 0;
    offer_counted();
  }

 private:
  struct Word {
    std::vector<std::int32_t> tokens;
    Index count = 0;  ///< in all texts
  };
  struct Pair {
    Index count = 0;  ///< in all texts
    std::vector<std::uint32_t> words;  ///< that have it, or had it
  };
  struct Offer {
    Index count;
    std::uint64_t pair;
    bool operator<(const Offer& other) const {  // worse than the other
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }
  void count_pair(std::int32_t left, std::int32_t right, std::uint32_t word, Index change) {
    Pair& pair = pairs_[key(left, right)];
    pair.count += change;
    if (change < 0) return;
    if (pair.words.empty() || pair.words.back() != word) pair.words.push_back(word);
    counted_.push_back(key(left, right));
  }
  /// Offers what has become more frequent.
  void offer_counted() {
    std::sort(counted_.begin(), counted_.end());
    counted_.erase(std::unique(counted_.begin(), counted_.end()), counted_.end());
    for (const std::uint64_t pair : counted_) offers_.push({pairs_.at(pair).count, pair});
    counted_.clear();
  }

  std::vector<Word> words_;
  std::unordered_map<std::uint64_t, Pair> pairs_;
  std::priority_queue<Offer> offers_;  ///< each pair's count, and some that it had
  std::vector<std::uint64_t> counted_;
};

}  // namespace detail

/// Learns a tokenizer from texts; byte b is its token b. It has fewer tokens than `vocab` where texts have too few
/// pairs. The same texts give the same tokenizer in any order.
///
/// Errors  throws Error for a vocabulary without room for bytes and special tokens, and what Tokenizer refuses, such as
///         a special token that has the name of another
/// Cost    a pass over the texts, and for each merge over the words that have it; memory for the different words
inline Tokenizer train_tokenizer(std::span<const std::string_view> texts, const TokenizerOptions& options = {}) {
  const Index room = options.vocab - static_cast<Index>(options.specials.size());
  if (room < 256) {
    throw Error("a vocabulary of " + std::to_string(options.vocab) + " has no room for 256 bytes and " +
                    std::to_string(options.specials.size()) + " special tokens",
                "give at least " + std::to_string(options.specials.size() + 256));
  }
  std::vector<std::string> made;  // in the order of TokenPairs
  for (const std::uint8_t byte : detail::bytes_by_character) made.emplace_back(1, static_cast<char>(byte));
  const auto token_of = [](std::int32_t number) -> std::int32_t {
    return number < 256 ? detail::bytes_by_character[static_cast<std::size_t>(number)] : number;
  };
  std::vector<TokenMerge> merges;
  detail::TokenPairs pairs(texts);
  while (static_cast<Index>(made.size()) < room) {
    const auto pair = pairs.most_frequent(std::max<Index>(options.least_count, 1));  // merged pairs have 0
    if (!pair) break;
    pairs.merge(*pair, static_cast<std::int32_t>(made.size()));
    // No token was made of these bytes before: bytes that become one token do so in one way, wherever they are.
    made.push_back(made[static_cast<std::size_t>(pair->left)] + made[static_cast<std::size_t>(pair->right)]);
    merges.push_back({token_of(pair->left), token_of(pair->right)});
  }
  for (int byte = 0; byte < 256; ++byte) made[static_cast<std::size_t>(byte)] = std::string(1, static_cast<char>(byte));
  made.insert(made.end(), options.specials.begin(), options.specials.end());
  return {std::move(made), merges};
}

}  // namespace simplx
