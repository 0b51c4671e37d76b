// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/corpus.hpp
/// Tokens to learn from and tokens held out: of text, or of token files that were prepared from it.
///
/// A prepared directory holds train.bin and val.bin in a format of io/tokens.hpp, and meta.json, which says the format,
/// the size of the vocabulary, and where each file's documents end. With it training sees the windows that it would see
/// of the text itself; without it each file is one document, as nanoGPT and llm.c have it. Tokens of several bytes have
/// their tokenizer.json (io/tokenizer_file.hpp) beside them.

#include <simplx/io/json.hpp>
#include <simplx/io/tokenizer_file.hpp>
#include <simplx/io/tokens.hpp>
#include <simplx/train/text.hpp>

#include <list>

namespace simplx::inline SIMPLX_TARGET {

/// Tokens and where the documents in them are.
struct TokenDocuments {
  TokenView tokens;
  std::vector<Document> documents;

  Index size() const { return Corpus::size_of(documents); }
};

/// Owns what its two parts look at. Batches(c.training.tokens, c.training.documents, {...}) draws from it.
struct TokenCorpus {
  TokenDocuments training, validation;
  std::optional<Tokenizer> tokenizer;  ///< of text bytes; none of files that do not say what their tokens are
  std::vector<std::filesystem::path> sources;  ///< files of tokens; the paths of the text otherwise
  Corpus text;
  std::vector<TokenFile> files;
};

/// How a corpus is read, and how many tokens its model knows.
struct CorpusOptions {
  TextOptions text = {};  ///< held_out_one_in also serves a token file that has no counterpart to hold out
  Index vocab = 256;
};

namespace detail {

inline constexpr const char* tokenizer_name = "tokenizer.json";

/// What meta.json says of one file of its directory.
struct PreparedFile {
  std::optional<TokenFormat> format;   ///< none: it says nothing
  std::string tokenizer;               ///< "bytes", or a file beside it
  Index vocab = 0;                     ///< tokens of that; 0: it says nothing
  std::vector<Document> documents;     ///< each begins where the one before it ends
};

/// Errors  throws Error if meta.json is there and says something else than write_corpus would
inline PreparedFile prepared(const std::filesystem::path& path) {
  const std::filesystem::path meta_path = path.parent_path() / "meta.json";
  const auto refuse = [&](const std::string& reason) {
    throw Error("cannot use " + meta_path.string() + ": " + reason, "prepare the directory again with tools/prepare");
  };
  PreparedFile file;
  std::error_code ignored;
  if (!std::filesystem::exists(meta_path, ignored)) return file;
  const auto meta = parse_json(MappedFile(meta_path).text());
  if (meta.is_discarded()) refuse("it is not JSON");
  try {
    for (const auto& part : meta.at("files")) {
      if (part.at("name").get<std::string>() != path.filename().string()) continue;
      if (file.format) refuse("it lists " + path.filename().string() + " twice");
      const std::string format = meta.at("format").get<std::string>();
      file.format = token_format_named(format);
      if (!file.format) refuse("the format '" + format + "' is not known");
      file.tokenizer = meta.value("tokenizer", "");
      const auto vocab = meta.find("vocab");
      if (vocab != meta.end() && vocab->is_number_integer()) vocab->get_to(file.vocab);
      Index end = 0;
      for (const auto& document : part.at("documents")) {
        const auto& size = document.at(1);
        const Index begin = end, tokens = size.is_number_integer() ? size.get<Index>() : -1;
        if (tokens < 0 || tokens > std::numeric_limits<Index>::max() - end) {
          refuse("a document of " + size.dump() + " tokens");
        }
        end += tokens;
        file.documents.push_back({document.at(0).get<std::string>(), begin, end});
      }
    }
  } catch (const nlohmann::json::exception& error) {
    refuse(error.what());
  }
  return file;
}

/// A file of tokens with its documents; `tokenizer` becomes that of the tokens.
inline TokenDocuments open_tokens(const std::filesystem::path& path, Index vocab, std::vector<TokenFile>& files,
                                  std::optional<Tokenizer>& tokenizer) {
  PreparedFile known = prepared(path);
  files.push_back(TokenFile::read(path, known.format));
  const TokenView tokens = files.back().tokens();
  check_vocabulary(tokens, vocab, path.string());
  tokenizer.reset();
  if (known.tokenizer == "bytes") tokenizer.emplace();
  if (known.tokenizer == tokenizer_name) {
    const std::filesystem::path tokenizer_path = path.parent_path() / known.tokenizer;
    tokenizer = load_tokenizer(tokenizer_path);
    if (known.vocab != 0 && known.vocab != tokenizer->size()) {
      throw Error(tokenizer_path.string() + " has " + std::to_string(tokenizer->size()) +
                      " tokens, but the meta.json beside it says " + std::to_string(known.vocab),
                  "prepare the directory again with tools/prepare");
    }
    check_vocabulary(tokens, tokenizer->size(), path.string());
  }
  if (known.documents.empty()) known.documents.push_back({path.filename().string(), 0, tokens.size()});
  if (known.documents.back().end != tokens.size()) {  // the greatest of the ends
    throw Error(path.string() + " has " + std::to_string(tokens.size()) +
                    " tokens, but the documents in its meta.json have " + std::to_string(known.documents.back().end),
                "prepare the directory again with tools/prepare");
  }
  return {tokens, std::move(known.documents)};
}

/// The held-out file that belongs to one: "val" where its name says "train"; none if that is not there.
inline std::optional<std::filesystem::path> counterpart(const std::filesystem::path& path) {
  std::string name = path.filename().string();
  const std::size_t at = name.rfind("train");
  if (at == name.npos) return {};
  const std::filesystem::path other = path.parent_path() / name.replace(at, 5, "val");
  std::error_code error;
  return exists(other, error) ? std::optional(other) : std::nullopt;
}

}  // namespace detail

/// Opens what is to be learned: one file of tokens (NAME.bin, with the file beside it that says "val" for "train"), one
/// directory with train.bin, or else text files and directories of them. Token files are mapped, not read.
///
/// Errors  throws Error with the path: what read_text and TokenFile::read refuse, tokens that the model does not know,
///         token files among other paths
inline TokenCorpus open_corpus(std::span<const std::filesystem::path> paths, const CorpusOptions& options = {}) {
  namespace fs = std::filesystem;
  TokenCorpus corpus;
  const auto tokens_of = [](const fs::path& path) -> std::optional<fs::path> {
    std::error_code error;
    if (path.extension() == ".bin" && !fs::is_directory(path, error)) return path;
    return fs::exists(path / "train.bin", error) ? std::optional(path / "train.bin") : std::nullopt;
  };
  for (const fs::path& path : paths) {
    if (const auto tokens = tokens_of(path); tokens && paths.size() > 1) {
      throw Error("the token file " + tokens->string() + " among " + std::to_string(paths.size()) + " paths",
                  "give one token file, or text alone");
    }
  }
  const std::optional<fs::path> file = paths.size() == 1 ? tokens_of(paths[0]) : std::nullopt;
  if (!file) {
    corpus.text = read_text(paths, options.text);
    corpus.tokenizer.emplace();
    corpus.training = {corpus.text.tokens(), corpus.text.training};
    corpus.validation = {corpus.text.tokens(), corpus.text.validation};
    corpus.sources.assign(paths.begin(), paths.end());
    check_vocabulary(corpus.text.tokens(), options.vocab, paths[0].string());
    return corpus;
  }
  corpus.training = detail::open_tokens(*file, options.vocab, corpus.files, corpus.tokenizer);
  corpus.sources.push_back(*file);
  if (const std::optional<fs::path> held_out = detail::counterpart(*file)) {
    corpus.validation = detail::open_tokens(*held_out, options.vocab, corpus.files, corpus.tokenizer);
    corpus.sources.push_back(*held_out);
    return corpus;
  }
  corpus.validation.tokens = corpus.training.tokens;
  detail::hold_out_tails(std::exchange(corpus.training.documents, {}), options.text.held_out_one_in,
                         corpus.training.documents, corpus.validation.documents);
  return corpus;
}

/// Writes text as a prepared directory: as bytes, or as the tokens of a tokenizer, each document with the special token
/// "<|endoftext|>" behind it if there is one. None of the files is replaced before all are written.
///
/// Errors  throws Error with path and reason, or if one part has no tokens, or one that the format does not hold; then
///         what was there stays
inline void write_corpus(const std::filesystem::path& folder, const Corpus& corpus, TokenFormat format,
                         std::span<const std::filesystem::path> sources, const Tokenizer* tokenizer = nullptr) {
  for (const auto* part : {&corpus.training, &corpus.validation}) {
    if (Corpus::size_of(*part) > 0) continue;
    throw Error("of " + std::to_string(corpus.bytes.size()) + " tokens none are left to " +
                    (part == &corpus.training ? "learn from" : "hold out"),
                "give more text, or hold out another share of it");
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error("cannot create the directory " + folder.string() + ": " + error.message(), "choose another");
  nlohmann::ordered_json meta{{"format", name_of(format)},
                              {"tokenizer", tokenizer ? detail::tokenizer_name : "bytes"},
                              {"vocab", tokenizer ? tokenizer->size() : 256}};
  for (const std::filesystem::path& source : sources) meta["sources"].push_back(source.string());
  meta["skipped"] = corpus.skipped;
  std::list<AtomicFile> files;
  const auto begin = [&](const char* name) -> AtomicFile& { return files.emplace_back(folder / name); };
  const auto end_of_text = tokenizer ? tokenizer->special("<|endoftext|>") : std::nullopt;
  const auto add = [&](const char* name, const std::vector<Document>& documents) {
    AtomicFile& file = begin(name);
    std::vector<TokenView> pieces;
    std::list<std::vector<std::int32_t>> encoded;
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    Index count = 0;
    for (const Document& document : documents) {
      if (tokenizer) {
        auto& tokens = encoded.emplace_back(tokenizer->encode(corpus.text(document)));
        if (end_of_text) tokens.push_back(*end_of_text);
        pieces.push_back(TokenView(tokens));
      } else {
        pieces.push_back(corpus.tokens().part(document.begin, document.end));
      }
      list.push_back({document.path, pieces.back().size()});
      count += pieces.back().size();
    }
    write_tokens(file, pieces, format);
    meta["files"].push_back({{"name", name}, {"tokens", count}, {"documents", list}});
  };
  add("train.bin", corpus.training);
  add("val.bin", corpus.validation);
  if (tokenizer) save_tokenizer(begin(detail::tokenizer_name), *tokenizer);
  const auto bad_bytes = nlohmann::ordered_json::error_handler_t::replace;  // of paths, which need not be UTF-8
  begin("meta.json").write(meta.dump(1, ' ', false, bad_bytes) + "\n");
  for (AtomicFile& file : files) file.flush();
  for (AtomicFile& file : files) file.commit();
}

}  // namespace simplx
