// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/text.hpp
/// Text files and directories as documents of bytes, split by document into training and held-out text.
///
/// A byte is a token, so there are 256 of them and nothing to learn beforehand. Directories are walked in the
/// order of their paths, and whether a document is held out depends on its path alone: the same text gives the
/// same split on every machine.

#include <simplx/core/error.hpp>
#include <simplx/core/shape.hpp>
#include <simplx/core/random.hpp>
#include <simplx/train/token_view.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// A part of the corpus: tokens [begin, end).
struct Document {
  std::string path;  ///< relative to the directory it was found in
  Index begin = 0, end = 0;
};

/// All bytes in one buffer, and where its documents are.
struct Corpus {
  std::vector<std::uint8_t> bytes;
  std::vector<Document> training, validation;
  Index skipped = 0;     ///< files of directories that are not text
  Index unreadable = 0;  ///< files and directories within directories that may not be read

  TokenView tokens() const { return TokenView(std::span(bytes)); }
  std::string_view text(const Document& document) const {
    return {reinterpret_cast<const char*>(bytes.data()) + document.begin,
            static_cast<std::size_t>(document.end - document.begin)};
  }
  static Index size_of(const std::vector<Document>& documents) {
    Index total = 0;
    for (const Document& document : documents) total += document.end - document.begin;
    return total;
  }
};

/// Which files are text to train on, and how many of them are held out.
struct TextOptions {
  std::vector<std::string> extensions = {};  ///< of the files taken from directories, ".py" or "py"; empty: all text
  int held_out_one_in = 10;                  ///< documents: one in so many is held out
  Index window = 1;                          ///< tokens that one document of each part has at least, if any has
  std::filesystem::path except = {};         ///< a directory that is left out: where results are written
};

namespace detail {

inline void check_held_out(int one_in) {
  if (one_in >= 1) return;
  throw Error("held_out_one_in is " + std::to_string(one_in),
              "10 holds out one document in ten; a number far above that of the tokens holds out nothing");
}

}  // namespace detail

/// Whether a document is held out, by the hash of its path.
///
/// Errors  throws Error if it is one in less than one
inline bool held_out(std::string_view path, int one_in) {
  detail::check_held_out(one_in);
  return key_of(0, path) % static_cast<std::uint64_t>(one_in) == 0;
}

namespace detail {

/// Text has no zero bytes and nearly no other control characters.
inline bool looks_like_text(std::span<const std::uint8_t> bytes) {
  const std::size_t looked_at = std::min<std::size_t>(bytes.size(), 1 << 16);
  std::size_t odd = 0;
  for (const std::uint8_t byte : bytes.first(looked_at)) {
    if (byte == 0) return false;
    odd += byte < 32 && byte != '\n' && byte != '\r' && byte != '\t' && byte != '\f';
  }
  return odd * 50 <= looked_at;
}

/// Appends the bytes of a file; false if it cannot be read.
inline bool append_file(const std::filesystem::path& path, std::vector<std::uint8_t>& bytes) {
  std::ifstream file(path, std::ios::binary);
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (!file || error) return false;
  const std::size_t before = bytes.size();
  bytes.resize(before + size);
  file.read(reinterpret_cast<char*>(bytes.data() + before), static_cast<std::streamsize>(size));
  bytes.resize(before + static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return file.gcount() == static_cast<std::streamsize>(size);
}

struct FoundFile {
  std::filesystem::path path;
  std::string name;  ///< relative to its directory
  bool named = false;
};

/// Whether files of an extension such as ".py" are taken.
inline bool takes(const std::vector<std::string>& wanted, const std::string& extension) {
  for (const std::string& each : wanted) {
    if (extension == each || (!extension.empty() && extension.substr(1) == each)) return true;
  }
  return wanted.empty();
}

/// Whether a directory is that of a run (io/run.hpp): what a run wrote is no text for another.
inline bool holds_a_run(const std::filesystem::path& directory) {
  std::error_code ignored;
  const auto has = [&](const char* name) { return std::filesystem::exists(directory / name, ignored); };
  return has("run.json") && (has("log.jsonl") || has("checkpoints"));
}

/// Whether a file of a directory is what tools/prepare wrote (io/corpus.hpp), or will replace in `except`.
inline bool is_prepared(const std::filesystem::path& file, const std::filesystem::path& except) {
  const std::filesystem::path name = file.filename(), directory = file.parent_path();
  if (name != "train.bin" && name != "val.bin" && name != "meta.json" && name != "tokenizer.json") return false;
  std::error_code ignored;
  if (!except.empty() && std::filesystem::equivalent(directory, except, ignored)) return true;
  constexpr std::string_view begins = "{\n \"format\": ";
  std::string start(begins.size(), ' ');
  std::ifstream(directory / "meta.json", std::ios::binary).read(start.data(), std::ssize(start));
  const auto has = [&](const char* other) { return std::filesystem::exists(directory / other, ignored); };
  return start == begins && has("train.bin") && has("val.bin");
}

/// The files of the paths, each of them once; `unreadable` counts directories inside that may not be read.
inline std::vector<FoundFile> find_files(std::span<const std::filesystem::path> paths, const TextOptions& options,
                                         Index& unreadable) {
  namespace fs = std::filesystem;
  std::vector<FoundFile> files;
  std::vector<std::string> seen;  // in order, as the files of a directory come
  const auto is_new = [&](const fs::path& file) {
    std::error_code error;
    const fs::path real = fs::canonical(file, error);
    const std::string name = (error ? file : real).string();
    const auto place = std::lower_bound(seen.begin(), seen.end(), name);
    if (place != seen.end() && *place == name) return false;
    seen.insert(place, name);
    return true;
  };
  for (const fs::path& path : paths) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) throw Error("no such file or directory: " + path.string(), "check the path");
    if (!fs::is_directory(status)) {
      if (!fs::is_regular_file(status)) {  // a pipe would be waited for until somebody writes
        throw Error("cannot read " + path.string() + ": it is a pipe or a device", "write the text to a file first");
      }
      if (is_new(path)) files.push_back({path, path.filename().generic_string(), true});
      continue;
    }
    std::vector<FoundFile> inside;
    auto entry = fs::recursive_directory_iterator(path, error);
    if (error) {
      throw Error("cannot read the directory " + path.string() + ": " + error.message(), "check its permissions");
    }
    for (; entry != fs::recursive_directory_iterator(); entry.increment(error)) {
      std::error_code ignored;
      if (entry->is_directory(ignored) && !entry->is_symlink(ignored)) {
        const bool left_out =
            holds_a_run(entry->path()) ||
            (!options.except.empty() && fs::equivalent(entry->path(), options.except, ignored));
        std::error_code refused;
        if (!left_out) fs::directory_iterator(entry->path(), refused);
        if (left_out || refused) entry.disable_recursion_pending();
        unreadable += static_cast<bool>(refused);
      }
      if (!entry->is_regular_file(ignored) || !takes(options.extensions, entry->path().extension().string()) ||
          is_prepared(entry->path(), options.except)) {
        continue;
      }
      inside.push_back({entry->path(), entry->path().lexically_relative(path).generic_string(), false});
    }
    if (error) throw Error("cannot read all of the directory " + path.string() + ": " + error.message(), "try again");
    std::sort(inside.begin(), inside.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    for (FoundFile& file : inside) {
      if (is_new(file.path)) files.push_back(std::move(file));
    }
  }
  return files;
}

/// The last tokens of each document are held out, one in so many.
inline void hold_out_tails(const std::vector<Document>& documents, int one_in, std::vector<Document>& training,
                           std::vector<Document>& validation) {
  check_held_out(one_in);
  for (const Document& document : documents) {
    const Index cut = document.end - (document.end - document.begin) / one_in;
    training.push_back({document.path, document.begin, cut});
    validation.push_back({document.path, cut, document.end});
  }
}

}  // namespace detail

/// Reads files and directories, a file that is found twice once. Files of a directory that are not text, and what may
/// not be read there, are skipped and counted. Directories of runs within a directory are passed over: those that hold
/// run.json beside log.jsonl or checkpoints. So are the files of a prepared directory (io/corpus.hpp).
///
/// Errors  throws Error with the path: missing, unreadable, binary or empty files that were named, or what is neither
///         file nor directory; no text at all; held_out_one_in below 1
inline Corpus read_text(std::span<const std::filesystem::path> paths, const TextOptions& options = {}) {
  detail::check_held_out(options.held_out_one_in);  // before everything is read
  Corpus corpus;
  std::vector<Document> documents;
  for (const detail::FoundFile& file : detail::find_files(paths, options, corpus.unreadable)) {
    const std::size_t before = corpus.bytes.size();
    const bool read = detail::append_file(file.path, corpus.bytes);
    const std::span<const std::uint8_t> content = std::span(corpus.bytes).subspan(before);
    const bool text = read && detail::looks_like_text(content);
    if (file.named) {
      if (!read) throw Error("cannot read " + file.path.string(), "check its permissions");
      if (content.empty()) throw Error("the file is empty: " + file.path.string(), "give a file with some text");
      if (!text) {
        throw Error("the file is binary, not text: " + file.path.string(), "give text files or directories of them");
      }
    }
    if (!text || content.empty()) {
      corpus.bytes.resize(before);
      ++(read ? corpus.skipped : corpus.unreadable);
      continue;
    }
    documents.push_back({file.name, static_cast<Index>(before), static_cast<Index>(corpus.bytes.size())});
  }
  if (documents.empty()) {
    throw Error("no text found in " + (paths.empty() ? std::string("nothing") : paths[0].string()),
                corpus.unreadable ? std::to_string(corpus.unreadable) + " files or directories there may not be read"
                                  : "give text files, or directories that contain some");
  }
  for (Document& document : documents) {
    (held_out(document.path, options.held_out_one_in) ? corpus.validation : corpus.training).push_back(document);
  }
  const auto has_window = [&](const std::vector<Document>& part) {
    for (const Document& each : part) {
      if (each.end - each.begin >= options.window) return true;
    }
    return false;
  };
  if (!has_window(corpus.training) || !has_window(corpus.validation)) {  // few documents, or one part has short ones
    corpus.training.clear(), corpus.validation.clear();
    detail::hold_out_tails(documents, options.held_out_one_in, corpus.training, corpus.validation);
  }
  return corpus;
}

}  // namespace simplx
