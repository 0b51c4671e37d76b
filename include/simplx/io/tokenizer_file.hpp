// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/tokenizer_file.hpp
/// Files of tokenizers: tokenizer.json as Hugging Face's tokenizers read and write it, and the two files of GPT-2.
///
///     tokenizer.json   {"model": {"type": "BPE", "vocab": {"Ġthe": 262, ...}, "merges": [["Ġ", "t"], ...]}, ...}
///     vocab.json       the vocabulary alone; encoder.json of openai/gpt-2
///     merges.txt       a merge a line, "Ġ t", after a line "#version: ..."; vocab.bpe of openai/gpt-2
///
/// Bytes are written as characters (io/byte_characters.hpp), special tokens as their names.

#include <simplx/io/byte_characters.hpp>
#include <simplx/io/file.hpp>
#include <simplx/io/json.hpp>
#include <simplx/io/mapped_file.hpp>
#include <simplx/io/shown.hpp>
#include <simplx/io/tokenizer.hpp>

#include <filesystem>
#include <map>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// The beginning of a value's text, in ASCII: fit for a terminal, and cut between characters.
inline std::string brief(const nlohmann::json& value) { return value.dump(-1, ' ', true).substr(0, 100); }

/// What the files of one tokenizer say, put together.
class TokenizerFile {
 public:
  explicit TokenizerFile(std::filesystem::path path) : path_(std::move(path)) {}

  /// Which of them is read from now on, for refusals.
  void reads(std::filesystem::path path) { path_ = std::move(path); }

  [[noreturn]] void refuse(const std::string& reason, const std::string& hint) const {
    throw Error("cannot use the tokenizer " + path_.string() + ": " + reason, hint);
  }

  nlohmann::json json(std::string_view text) const {
    nlohmann::json json = parse_json(text);
    if (!json.is_object()) refuse("it is no JSON object", "was it written completely?");
    return json;
  }

  /// A token by what files call it: characters of its bytes, or its name.
  void add_token(const std::string& name, const nlohmann::json& number, bool is_name = false) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() >= 1u << 30) {
      refuse("the number of " + shown(name) + " is " + brief(number), "tokens are numbered from 0");
    }
    const auto at = number.get<std::size_t>();
    Token& token = tokens_.emplace(name, Token{at}).first->second;
    token.is_name |= is_name;
    if (token.number != at) {
      refuse(shown(name) + " is both token " + std::to_string(token.number) + " and " + std::to_string(at),
             "leave out one of them");
    }
  }
  void add_merge(const std::string& left, const std::string& right) {
    const auto find = [&](const std::string& name) {
      const auto found = tokens_.find(name);
      if (found == tokens_.end()) {
        refuse("merge " + std::to_string(merges_.size()) + " is of " + shown(name) + ", which is no token",
               "do vocabulary and merges belong together?");
      }
      return static_cast<std::int32_t>(found->second.number);
    };
    merges_.push_back({find(left), find(right)});
  }
  /// "left right"
  void add_merge(std::string_view line) {
    const std::size_t space = line.find(' ');
    if (space == line.npos || space == 0 || space + 1 == line.size() || line.find(' ', space + 1) != line.npos) {
      refuse("merge " + std::to_string(merges_.size()) + " is " + shown(line),
             "a merge is two tokens with a space between them");
    }
    add_merge(std::string(line.substr(0, space)), std::string(line.substr(space + 1)));
  }

  Tokenizer finish() const {
    std::vector<std::string> tokens(tokens_.size());
    for (const auto& [name, token] : tokens_) {
      if (token.number >= tokens.size() || !tokens[token.number].empty()) {
        refuse("its " + std::to_string(tokens.size()) + " tokens are not numbered from 0, each once",
               "is part of the vocabulary missing?");
      }
      tokens[token.number] = token.is_name ? name : as_bytes(name).value_or(name);
    }
    try {
      return {std::move(tokens), merges_};
    } catch (const Error& error) {
      throw Error("cannot use the tokenizer " + path_.string() + ": " + error.what());  // which has a hint
    }
  }

 private:
  struct Token {
    std::size_t number;
    bool is_name = false;
  };
  std::filesystem::path path_;
  std::map<std::string, Token> tokens_;
  std::vector<TokenMerge> merges_;
};

/// Refuses what would give a text other tokens than `Tokenizer` does.
inline void check_settings(const nlohmann::json& json, const TokenizerFile& file) {
  const std::string hint = "it has to be byte-pair encoding of bytes that cuts texts as GPT-2 does";
  const auto is_nothing = [](const nlohmann::json& value) {
    return value.is_null() || value == false || value == "" || value == nlohmann::json::array();
  };
  const auto none = [&](const nlohmann::json& object, const char* key) {
    if (object.contains(key) && !is_nothing(object[key])) {
      file.refuse(std::string(key) + " is " + brief(object[key]), hint);
    }
  };
  none(json, "normalizer");
  const nlohmann::json& model = json.at("model");
  if (model.value("type", "BPE") != "BPE") file.refuse("its model is " + brief(model.at("type")), hint);
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback",
                          "ignore_merges"}) {
    none(model, key);
  }
  const nlohmann::json cut = json.value("pre_tokenizer", nlohmann::json());
  if (!cut.is_object() || cut.value("type", "") != "ByteLevel" || cut.value("add_prefix_space", true) ||
      !cut.value("use_regex", true)) {
    file.refuse("its pre_tokenizer is " + brief(cut), hint);
  }
}

/// The tokenizer of a tokenizer.json's text.
inline Tokenizer tokenizer_of(std::string_view text, const std::filesystem::path& path) {
  TokenizerFile file(path);
  const nlohmann::json json = file.json(text);
  try {
    check_settings(json, file);
    for (const auto& [name, number] : json.at("model").at("vocab").items()) file.add_token(name, number);
    for (const auto& added : json.value("added_tokens", nlohmann::json::array())) {
      const std::string name = added.at("content").get<std::string>();
      if (!added.value("special", false)) {
        file.refuse("it looks for the token " + shown(name) + " in texts", "only special tokens can be added");
      }
      file.add_token(name, added.at("id"), true);
    }
    for (const auto& merge : json.at("model").at("merges")) {
      if (merge.is_string()) {
        file.add_merge(merge.get<std::string>());
      } else if (merge.size() == 2) {
        file.add_merge(merge.at(0).get<std::string>(), merge.at(1).get<std::string>());
      } else {
        file.refuse("a merge is " + brief(merge), "a merge is two tokens");
      }
    }
  } catch (const nlohmann::json::exception& error) {
    file.refuse(error.what(), "was it written by Hugging Face's tokenizers, or by save_tokenizer?");
  }
  return file.finish();
}

}  // namespace detail

/// Reads a tokenizer.json. What it would add to the tokens of a text, such as a beginning, an end and padding, or cut
/// off is left to the caller, as are special tokens within texts.
///
/// Errors  throws Error with the path for what is no such file, and for what is not byte-pair encoding of bytes with
///         the words of GPT-2: other models, other ways to cut or to change texts, added tokens that are not special
inline Tokenizer load_tokenizer(const std::filesystem::path& path) {
  return detail::tokenizer_of(MappedFile(path).text(), path);
}

/// Reads the two files of GPT-2. A token that no merge makes, such as "<|endoftext|>", is special.
///
/// Errors  throws Error with the path for what are no such files
inline Tokenizer load_tokenizer(const std::filesystem::path& vocabulary, const std::filesystem::path& merges) {
  detail::TokenizerFile file(vocabulary);
  const MappedFile mapped_vocabulary(vocabulary), mapped_merges(merges);
  const nlohmann::json json = file.json(mapped_vocabulary.text());
  for (const auto& [name, number] : json.items()) file.add_token(name, number);
  file.reads(merges);
  std::string_view text = mapped_merges.text();
  for (bool first = true; !text.empty(); first = false) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::string_view merge = line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
    if (!merge.empty() && !(first && merge.starts_with("#version"))) file.add_merge(merge);
  }
  file.reads(vocabulary);
  return file.finish();
}

/// Writes a tokenizer.json to a file that somebody else commits.
///
/// Errors  throws Error for a special token whose name is that of bytes, or is not UTF-8, and if writing fails
inline void save_tokenizer(AtomicFile& file, const Tokenizer& tokenizer) {
  using Json = nlohmann::ordered_json;
  std::vector<std::string> names;  // of all tokens in the file
  for (std::int32_t token = 0; token < tokenizer.size(); ++token) {
    names.push_back(detail::as_characters(tokenizer.bytes(token)));
  }
  Json added = Json::array(), vocabulary = Json::object(), merges = Json::array();
  for (const std::int32_t token : tokenizer.specials()) {
    const std::string& name = names[static_cast<std::size_t>(token)] = tokenizer.bytes(token);
    added.push_back({{"id", token}, {"content", name}, {"single_word", false}, {"lstrip", false}, {"rstrip", false},
                     {"normalized", false}, {"special", true}});
  }
  const auto refuse = [&](const std::string& reason) {
    throw Error("cannot write the tokenizer " + file.path().string() + ": " + reason,
                "give special tokens names of signs and letters, such as <|endoftext|>");
  };
  std::map<std::string_view, std::int32_t> numbers;
  for (const std::string& name : names) {
    const auto number = static_cast<std::int32_t>(numbers.size());
    if (const auto [other, is_new] = numbers.emplace(name, number); !is_new) {
      refuse("tokens " + std::to_string(other->second) + " and " + std::to_string(number) + " are both called " +
             detail::shown(name));
    }
    vocabulary.push_back({name, number});
  }
  for (Index i = 0; i < tokenizer.merge_count(); ++i) {
    const TokenMerge merge = tokenizer.merge(i);
    merges.push_back({names[static_cast<std::size_t>(merge.left)], names[static_cast<std::size_t>(merge.right)]});
  }
  const Json bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  const Json model{{"type", "BPE"}, {"dropout", nullptr}, {"unk_token", nullptr},
                   {"continuing_subword_prefix", nullptr}, {"end_of_word_suffix", nullptr}, {"fuse_unk", false},
                   {"byte_fallback", false}, {"ignore_merges", false}, {"vocab", std::move(vocabulary)},
                   {"merges", std::move(merges)}};
  const Json json{{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}, {"added_tokens", std::move(added)},
                  {"normalizer", nullptr}, {"pre_tokenizer", bytes}, {"post_processor", nullptr}, {"decoder", bytes},
                  {"model", model}};
  try {
    file.write(json.dump(1) + "\n");
  } catch (const nlohmann::json::exception& error) {
    refuse(error.what());
  }
}

/// Writes a tokenizer.json, which load_tokenizer and Hugging Face's tokenizers read. The file is whole or not there.
///
/// Errors  as above
inline void save_tokenizer(const std::filesystem::path& path, const Tokenizer& tokenizer) {
  AtomicFile file(path);
  save_tokenizer(file, tokenizer);
  file.commit();
}

}  // namespace simplx
