// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/safetensors_header.hpp
/// The header of a safetensors file, read as a stream of JSON events by a reader that knows what may come next:
///
///     { "__metadata__": {text: text, ...},
///       name: {"dtype": text, "shape": [n, ...], "data_offsets": [begin, end]}, ... }
///
/// Nothing is built that is not of this form, so neither depth nor repetition can cost more than the header's length.
/// Offsets in refusals are bytes of the file, just past what is wrong.

#include <simplx/core/error.hpp>
#include <simplx/io/shown.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

using Metadata = std::map<std::string, std::string>;

namespace detail {

/// What the header says of one tensor.
struct HeaderEntry {
  std::string name, dtype;
  std::vector<std::uint64_t> shape, offsets;
  std::uint64_t at = 0;  ///< of the entry in the file
};

struct SafetensorsHeader {
  std::vector<HeaderEntry> entries;
  Metadata metadata;
};

[[noreturn]] inline void refuse_safetensors(const std::string& path, std::uint64_t at, const std::string& reason) {
  throw Error("not a usable safetensors file: " + path + ": at byte " + std::to_string(at) + ": " + reason,
              "was it written completely, by a tool for safetensors?");
}

/// Characters that tell how far they were read.
struct ReadCharacters {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  const char** reached;

  reference operator*() const { return *at; }
  ReadCharacters& operator++() {
    *reached = ++at;
    return *this;
  }
  ReadCharacters operator++(int) {
    ReadCharacters before = *this;
    ++*this;
    return before;
  }
  bool operator==(const ReadCharacters& other) const { return at == other.at; }
};

/// Takes the events of the JSON reader; the first that may not come is refused.
class HeaderEvents {
 public:
  HeaderEvents(SafetensorsHeader& header, const std::string& path, const char* begin, std::uint64_t offset)
      : header_(header), path_(path), begin_(begin), offset_(offset), reached_(begin) {}

  const char** reached() { return &reached_; }

  bool start_object(std::size_t) {
    if (in_ == In::nothing) return go(In::header);
    if (in_ != In::header) return unexpected("an object");
    if (key_ == "__metadata__") return go(In::metadata);
    header_.entries.push_back({.name = key_, .dtype = {}, .shape = {}, .offsets = {}, .at = here()});
    seen_.clear();
    return go(In::tensor);
  }
  bool key(std::string& text) {
    const bool metadata = in_ == In::metadata;
    std::set<std::string>& names = in_ == In::header ? names_ : metadata ? metadata_keys_ : seen_;
    if (!names.insert(text).second) {
      refuse((metadata ? "__metadata__: " : of_tensor()) + "the name " + shown(text) + " stands twice");
    }
    if (in_ == In::tensor && text != "dtype" && text != "shape" && text != "data_offsets") incomplete();
    key_ = text;
    return true;
  }
  bool end_object() {
    if (in_ == In::tensor && seen_.size() != 3) incomplete();
    return go(in_ == In::header ? In::nothing : In::header);
  }
  bool start_array(std::size_t) {
    if (in_ == In::tensor && key_ == "shape") return go(In::shape);
    if (in_ == In::tensor && key_ == "data_offsets") return go(In::offsets);
    return unexpected("a list");
  }
  bool end_array() {
    if (in_ == In::offsets && header_.entries.back().offsets.size() != 2) return unexpected("another count");
    return go(In::tensor);
  }
  bool string(std::string& text) {
    if (in_ == In::metadata) {
      header_.metadata[key_] = text;
    } else if (in_ == In::tensor && key_ == "dtype") {
      header_.entries.back().dtype = text;
    } else {
      unexpected("a text");
    }
    return true;
  }
  bool number_unsigned(std::uint64_t value) {
    if (in_ == In::shape) {
      header_.entries.back().shape.push_back(value);
    } else if (in_ == In::offsets && header_.entries.back().offsets.size() < 2) {
      header_.entries.back().offsets.push_back(value);
    } else {
      unexpected(std::to_string(value));
    }
    return true;
  }
  bool number_integer(std::int64_t value) { return unexpected(std::to_string(value)); }
  bool number_float(double, const std::string& text) { return unexpected(text.size() > 80 ? "a long number" : text); }
  bool boolean(bool value) { return unexpected(value ? "true" : "false"); }
  bool null() { return unexpected("null"); }
  bool binary(nlohmann::json::binary_t&) { return unexpected("bytes"); }
  bool parse_error(std::size_t, const std::string& token, const nlohmann::json::exception& error) {
    std::string reason = error.what();  // it quotes the whole token, which may be as long as the header
    const std::size_t at = reason.find("'" + token + "'");
    if (at != reason.npos) reason.replace(at, token.size() + 2, shown(token));
    refuse("the header is not JSON: " + reason);
  }

 private:
  enum class In { nothing, header, metadata, tensor, shape, offsets };

  bool go(In next) {
    in_ = next;
    return true;
  }
  std::uint64_t here() const { return offset_ + static_cast<std::uint64_t>(reached_ - begin_); }
  [[noreturn]] void refuse(const std::string& reason) const { refuse_safetensors(path_, here(), reason); }
  std::string of_tensor() const {
    return in_ == In::header ? "" : "tensor " + shown(header_.entries.back().name) + ": ";
  }
  [[noreturn]] void incomplete() const {
    refuse(of_tensor() + "its entry must hold dtype, shape and data_offsets, and nothing else");
  }
  [[noreturn]] bool unexpected(const std::string& found) const {
    switch (in_) {
      case In::nothing: refuse("the header is no JSON object, but " + found);
      case In::header: refuse("the entry of " + shown(key_) + " is no object, but " + found);
      case In::metadata: refuse("__metadata__ entry " + shown(key_) + " is no text, but " + found);
      case In::shape: refuse(of_tensor() + "its shape holds " + shown(found));
      case In::offsets: refuse(of_tensor() + "its data_offsets are not two whole numbers, but hold " + shown(found));
      case In::tensor: break;
    }
    refuse(of_tensor() + "its " + key_ + " is " + shown(found));
  }

  SafetensorsHeader& header_;
  const std::string& path_;
  const char* begin_;
  std::uint64_t offset_;
  const char* reached_;
  In in_ = In::nothing;
  std::string key_;
  std::set<std::string> names_, metadata_keys_, seen_;
};

/// Reads a header that stands at byte `offset` of a file.
///
/// Errors  throws Error with path, byte and reason for the first thing that is not of the form
inline SafetensorsHeader read_safetensors_header(std::string_view text, const std::string& path, std::uint64_t offset) {
  SafetensorsHeader header;
  if (!text.starts_with('{')) {
    refuse_safetensors(path, offset, "the header is no JSON object: it does not begin with {");
  }
  if (const std::size_t zero = text.find('\0'); zero != text.npos) {  // where the JSON reader would stop, satisfied
    refuse_safetensors(path, offset + zero, "the header is not JSON: a zero byte");
  }
  HeaderEvents events(header, path, text.data(), offset);
  const ReadCharacters begin{text.data(), events.reached()}, end{text.data() + text.size(), events.reached()};
  nlohmann::json::sax_parse(begin, end, &events);
  return header;
}

}  // namespace detail

}  // namespace simplx
