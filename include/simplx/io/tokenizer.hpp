// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/tokenizer.hpp
/// Text as tokens of several bytes, and back: byte-pair encoding of bytes, that of GPT-2 and its kin.
///
///     const Tokenizer tokenizer = load_tokenizer("gpt2/tokenizer.json");
///     std::vector<std::int32_t> tokens = tokenizer.encode("Hello world");  // 15496 995
///     std::string text = tokenizer.decode(tokens);
///
/// A text is cut into words (io/word_pieces.hpp), and each word into its bytes. Of all neighbours in a word those two
/// are merged that come first in the list of merges, until none are in it. Any bytes have tokens, and what is decoded
/// are the bytes that were encoded. Merges are learnt by io/train_tokenizer.hpp; files: io/tokenizer_file.hpp.
///
/// Source  Sennrich et al. 2016, Sec. 3.2; Radford et al. 2019, Sec. 2.2

#include <simplx/core/error.hpp>
#include <simplx/core/shape.hpp>
#include <simplx/io/shown.hpp>
#include <simplx/io/word_pieces.hpp>

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// Two neighbouring tokens that become one: that of the bytes of both.
struct TokenMerge {
  std::int32_t left = 0, right = 0;
};

/// A vocabulary and the merges that make its tokens. Threads may share it: to encode and decode changes nothing.
class Tokenizer {
 public:
  /// Bytes: token b is byte b.
  Tokenizer() : Tokenizer(all_bytes(), {}) {}

  /// The bytes of each token, and the merges, of which the first are made first. A token that is no byte and that no
  /// merge makes is special: its bytes are its name, and no text has it.
  ///
  /// Errors  throws Error for a byte without a token, two tokens of the same bytes, an empty one, the same merge twice,
  ///         and merges whose result is no token
  Tokenizer(std::vector<std::string> tokens, std::span<const TokenMerge> merges) : tokens_(std::move(tokens)) {
    std::unordered_map<std::string_view, std::int32_t> numbers;
    for (const std::string& token : tokens_) {
      const auto number = static_cast<std::int32_t>(numbers.size());
      if (token.empty()) throw Error("token " + std::to_string(number) + " has no bytes", "leave it out");
      if (numbers.emplace(token, number).second) continue;
      throw Error("tokens " + std::to_string(numbers.at(token)) + " and " + std::to_string(number) + " are both " +
                      detail::shown(token),
                  "leave one of them out, or give a special token another name");
    }
    std::vector<bool> made(tokens_.size());
    for (std::size_t byte = 0; byte < byte_tokens_.size(); ++byte) {
      const auto found = numbers.find(std::string(1, static_cast<char>(byte)));
      if (found == numbers.end()) {
        throw Error("byte " + std::to_string(byte) + " has no token", "all 256 need one, so that any text has tokens");
      }
      byte_tokens_[byte] = found->second;
      made[static_cast<std::size_t>(found->second)] = true;
    }
    for (const TokenMerge& merge : merges) {
      const std::string number = std::to_string(merges_.size());
      const std::string both = std::string(bytes(merge.left)) + std::string(bytes(merge.right));
      const auto result = numbers.find(both);
      if (result == numbers.end()) {
        throw Error("merge " + number + " makes " + detail::shown(both) + ", which is no token",
                    "give it a token, or leave the merge out");
      }
      if (!ranks_.emplace(key(merge.left, merge.right), static_cast<std::int32_t>(merges_.size())).second) {
        throw Error("merge " + number + ", of " + detail::shown(both) + ", is there twice", "leave one out");
      }
      merges_.push_back({merge.left, merge.right, result->second});
      made[static_cast<std::size_t>(result->second)] = true;
    }
    for (std::int32_t token = 0; token < size(); ++token) {
      if (!made[static_cast<std::size_t>(token)]) specials_.push_back(token);
    }
  }

  /// Tokens there are: the `vocab` of a model.
  Index size() const { return static_cast<Index>(tokens_.size()); }

  /// The tokens of a text. None of them is special: "<|endoftext|>" in a text are signs and letters.
  ///
  /// Errors  throws Error for a word of 2 GiB
  /// Cost    n log n for a word of n bytes
  std::vector<std::int32_t> encode(std::string_view text) const {
    std::vector<std::int32_t> tokens;
    Word word;
    while (!text.empty()) {
      const std::size_t piece = detail::first_piece(text);
      encode_word(text.substr(0, piece), word, tokens);
      text.remove_prefix(piece);
    }
    return tokens;
  }

  /// The bytes of tokens, one after the other. A character may begin in one token and end in another: Utf8
  /// (generate/utf8.hpp) shows text as it comes.
  ///
  /// Errors  throws Error for a token that is not in the vocabulary
  std::string decode(std::span<const std::int32_t> tokens) const {
    std::string text;
    for (const std::int32_t token : tokens) text += bytes(token);
    return text;
  }

  /// The bytes of a token; of a special one its name.
  ///
  /// Errors  throws Error for a token that is not in the vocabulary
  std::string_view bytes(std::int32_t token) const {
    if (token < 0 || token >= size()) {
      throw Error("token " + std::to_string(token) + ", but the tokenizer has " + std::to_string(size()),
                  "take the tokenizer that the tokens were made with");
    }
    return tokens_[static_cast<std::size_t>(token)];
  }

  /// The special token of that name, such as "<|endoftext|>"; none if there is none.
  std::optional<std::int32_t> special(std::string_view name) const {
    for (const std::int32_t token : specials_) {
      if (bytes(token) == name) return token;
    }
    return {};
  }
  std::span<const std::int32_t> specials() const { return specials_; }

  /// Merge i of merge_count(), in the order in which they are made.
  Index merge_count() const { return static_cast<Index>(merges_.size()); }
  TokenMerge merge(Index i) const {
    const Merge& merge = merges_[static_cast<std::size_t>(i)];
    return {merge.left, merge.right};
  }

 private:
  struct Merge {
    std::int32_t left, right, result;
  };
  /// A word while its tokens are merged: a list, which leaves out what was merged into its neighbour.
  struct Word {
    struct Symbol {
      std::int32_t token, before, after;  ///< the places of its neighbours, -1 at the ends
    };
    struct Candidate {
      std::int32_t rank, left;
      auto operator<=>(const Candidate&) const = default;  // by rank, and from left to right
    };
    std::vector<Symbol> symbols;
    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;

    Symbol& at(std::int32_t i) { return symbols[static_cast<std::size_t>(i)]; }
  };

  static std::vector<std::string> all_bytes() {
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    return tokens;
  }
  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }

  void encode_word(std::string_view text, Word& word, std::vector<std::int32_t>& tokens) const {
    if (text.size() > std::numeric_limits<std::int32_t>::max()) {
      throw Error("a word of " + std::to_string(text.size()) + " bytes", "is it text? words end at spaces");
    }
    word.symbols.clear();
    const auto count = static_cast<std::int32_t>(text.size());
    for (std::int32_t i = 0; i < count; ++i) {
      const auto byte = static_cast<unsigned char>(text[static_cast<std::size_t>(i)]);
      word.symbols.push_back({byte_tokens_[byte], i - 1, i + 1 < count ? i + 1 : -1});
    }
    const auto consider = [&](std::int32_t left) {
      if (left < 0 || word.at(left).after < 0) return;
      const auto rank = ranks_.find(key(word.at(left).token, word.at(word.at(left).after).token));
      if (rank != ranks_.end()) word.candidates.push({rank->second, left});
    };
    for (std::int32_t i = 0; i < count; ++i) consider(i);
    while (!word.candidates.empty()) {
      const auto [rank, place] = word.candidates.top();
      word.candidates.pop();
      const Merge& merge = merges_[static_cast<std::size_t>(rank)];
      Word::Symbol& left = word.at(place);
      const bool merged_since =
          left.token != merge.left || left.after < 0 || word.at(left.after).token != merge.right;
      if (merged_since) continue;
      Word::Symbol& right = word.at(left.after);
      left.token = merge.result, left.after = right.after;
      right.token = -1;
      if (left.after >= 0) word.at(left.after).before = place;
      consider(left.before), consider(place);
    }
    for (std::int32_t i = 0; i >= 0; i = word.at(i).after) tokens.push_back(word.at(i).token);
  }

  std::vector<std::string> tokens_;
  std::array<std::int32_t, 256> byte_tokens_{};
  std::vector<Merge> merges_;
  std::unordered_map<std::uint64_t, std::int32_t> ranks_;  ///< of pairs among the merges
  std::vector<std::int32_t> specials_;
};

}  // namespace simplx
