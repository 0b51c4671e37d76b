// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/safetensors.hpp
/// Reading and writing safetensors files: named tensors of F64, F32 or I32, and a map of texts.
///
///     u64 (little endian)   length of the header
///     header                JSON: name -> {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": texts
///     data                  the tensors' bytes, offsets counted from here
///
/// The reader trusts nothing: what is not exactly this is refused with path, tensor and reason.

#include <simplx/core/shape.hpp>
#include <simplx/io/file.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

enum class Dtype : signed char { f64, f32, i32 };

constexpr const char* name_of(Dtype type) { return type == Dtype::f64 ? "F64" : type == Dtype::f32 ? "F32" : "I32"; }
constexpr Index bytes_of(Dtype type) { return type == Dtype::f64 ? 8 : 4; }

/// A tensor in a file or on its way there; the bytes belong to somebody else.
struct Tensor {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<Index> shape;  ///< none for a number
  std::span<const std::byte> bytes;

  Index elements() const {
    Index count = 1;
    for (const Index extent : shape) count *= extent;
    return count;
  }
};

using Metadata = std::map<std::string, std::string>;

namespace detail {

/// The bytes that the shape of a tensor needs; throws Error for extents that cannot be.
inline Index bytes_needed(const Tensor& tensor) {
  Index size = bytes_of(tensor.dtype);
  for (const Index extent : tensor.shape) {
    if (extent < 0 || (extent > 0 && size > std::numeric_limits<Index>::max() / extent)) {
      throw Error("tensor " + tensor.name + " has an impossible shape, with an extent of " + std::to_string(extent));
    }
    size *= extent;
  }
  return size;
}

}  // namespace detail

/// Writes all tensors in their order; the file appears only when it is complete.
///
/// Errors  throws Error if a name is taken or not UTF-8, a size does not fit its shape, or the file cannot be written
inline void write_safetensors(const std::filesystem::path& path, std::span<const Tensor> tensors,
                              const Metadata& metadata = {}) {
  static_assert(std::endian::native == std::endian::little, "simplx: safetensors are little endian");
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::set<std::string> taken{"__metadata__"};
  Index offset = 0;
  for (const Tensor& tensor : tensors) {
    if (!taken.insert(tensor.name).second) {
      throw Error("the name of tensor " + tensor.name + " is taken in " + path.string(), "give every tensor its own name");
    }
    const Index size = detail::bytes_needed(tensor);
    if (size != static_cast<Index>(tensor.bytes.size())) {
      throw Error("tensor " + tensor.name + " has " + std::to_string(tensor.bytes.size()) + " bytes, its shape needs " +
                  std::to_string(size));
    }
    header[tensor.name] = {{"dtype", name_of(tensor.dtype)}, {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + size}}};
    offset += size;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& error) {
    throw Error("cannot write " + path.string() + ": " + error.what(), "names and metadata must be UTF-8");
  }
  text.resize(static_cast<std::size_t>(round_up(static_cast<Index>(text.size()), 8)), ' ');
  const std::uint64_t length = text.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(text);
  for (const Tensor& tensor : tensors) file.write(tensor.bytes);
  file.commit();
}

/// A file read into memory and checked.
class SafetensorsFile {
 public:
  SafetensorsFile(SafetensorsFile&&) = default;  // tensors point into the bytes: moving keeps them, copying would not
  SafetensorsFile& operator=(SafetensorsFile&&) = default;

  /// Errors  throws Error with path and reason for anything that is not a well-formed file
  static SafetensorsFile read(const std::filesystem::path& path) { return SafetensorsFile(path); }

  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }
  const Tensor* find(std::string_view name) const {
    const auto found = std::find_if(tensors_.begin(), tensors_.end(), [&](const Tensor& t) { return t.name == name; });
    return found == tensors_.end() ? nullptr : &*found;
  }

 private:
  static constexpr std::uint64_t longest_header = 100'000'000;

  explicit SafetensorsFile(const std::filesystem::path& path) : path_(path.string()) {
    read_bytes();
    std::uint64_t length = 0;
    if (bytes_.size() < sizeof length) refuse("it has " + std::to_string(bytes_.size()) + " bytes, too few for a header");
    std::memcpy(&length, bytes_.data(), sizeof length);
    if (length > longest_header || length > bytes_.size() - sizeof length) {
      refuse("at byte 0: the header's length is " + std::to_string(length) + ", but the file has " +
             std::to_string(bytes_.size()) + " bytes");
    }
    const char* text = reinterpret_cast<const char*>(bytes_.data()) + sizeof length;
    data_begin_ = sizeof length + static_cast<std::size_t>(length);
    parse_header(text, text + length);
    check_coverage();
  }

  [[noreturn]] void refuse(const std::string& reason) const {
    throw Error("not a usable safetensors file: " + path_ + ": " + reason, "was it written completely, by a tool for safetensors?");
  }

  void read_bytes() {
    std::error_code reason;  // of directories too, which a stream would open
    const std::uintmax_t size = std::filesystem::file_size(path_, reason);
    if (reason) throw Error("cannot read " + path_ + ": " + reason.message(), "check that it is a file and may be read");
    std::ifstream file(path_, std::ios::binary);
    if (!file) throw Error("cannot read " + path_, "check that the file may be read");
    bytes_.resize(static_cast<std::size_t>(size));
    file.read(reinterpret_cast<char*>(bytes_.data()), static_cast<std::streamsize>(bytes_.size()));
    if (!file) throw Error("cannot read " + path_, "the file ended early");
  }

  void parse_header(const char* begin, const char* end) {
    std::vector<std::set<std::string>> open;  // names seen in each object that is being read
    std::string repeated;
    const auto watch = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& value) {
      using Event = nlohmann::json::parse_event_t;
      if (event == Event::object_start) open.emplace_back();
      if (event == Event::object_end) open.pop_back();
      if (event == Event::key && !open.back().insert(value.get<std::string>()).second) repeated = value.get<std::string>();
      return true;
    };
    nlohmann::json header;
    try {
      header = nlohmann::json::parse(begin, end, watch);
    } catch (const nlohmann::json::exception& error) {
      refuse(std::string("the header is not JSON: ") + error.what());
    }
    if (!repeated.empty()) refuse("the name '" + repeated + "' stands twice in the header");
    if (!header.is_object()) refuse("the header is no JSON object");
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") {
        read_metadata(entry);
      } else {
        read_tensor(name, entry);
      }
    }
    if (!unreadable_.empty()) refuse(unreadable_ + "; F64, F32 and I32 can be read");
  }

  void read_metadata(const nlohmann::json& entry) {
    if (!entry.is_object()) refuse("__metadata__ is no object");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) refuse("__metadata__ entry '" + key + "' is no text");
      metadata_[key] = value.get<std::string>();
    }
  }

  void read_tensor(const std::string& name, const nlohmann::json& entry) {
    const auto bad = [&](const std::string& reason) { refuse("tensor '" + name + "': " + reason); };
    if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") || !entry.contains("shape") ||
        !entry.contains("data_offsets")) {
      bad("its entry must hold dtype, shape and data_offsets, and nothing else");
    }
    Tensor tensor;
    tensor.name = name;
    const auto& dtype = entry["dtype"];
    const std::string type = dtype.is_string() ? dtype.get<std::string>() : dtype.dump();
    if (type == "F64") {
      tensor.dtype = Dtype::f64;
    } else if (type == "F32") {
      tensor.dtype = Dtype::f32;
    } else if (type == "I32") {
      tensor.dtype = Dtype::i32;
    } else {
      unreadable_ += (unreadable_.empty() ? "tensor '" : "; tensor '") + name + "': its dtype is " + type;
      return;  // all of them are told at once
    }
    const std::uint64_t data_size = bytes_.size() - data_begin_;
    std::uint64_t size = static_cast<std::uint64_t>(bytes_of(tensor.dtype));
    const auto& shape = entry["shape"];
    if (!shape.is_array()) bad("its shape is no list");
    // An extent of 0 needs no bytes whatever the others are, but their product must still fit an Index.
    const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
    const std::uint64_t limit = empty ? std::numeric_limits<Index>::max() : data_size;
    for (const auto& extent : shape) {
      if (!extent.is_number_unsigned()) bad("its shape holds " + extent.dump());
      const std::uint64_t count = extent.get<std::uint64_t>();
      if (count != 0 && size > limit / count) bad("its shape needs more bytes than the file has");
      if (count != 0) size *= count;
      tensor.shape.push_back(static_cast<Index>(count));
    }
    if (empty) size = 0;
    const auto& offsets = entry["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned()) {
      bad("its data_offsets are not two whole numbers");
    }
    const std::uint64_t begin = offsets[0].get<std::uint64_t>(), end = offsets[1].get<std::uint64_t>();
    if (begin > end || end > data_size) {
      bad("its data_offsets [" + std::to_string(begin) + ", " + std::to_string(end) + "] are outside of the data, " +
          std::to_string(data_size) + " bytes");
    }
    if (end - begin != size) {
      bad("its data_offsets span " + std::to_string(end - begin) + " bytes, its shape needs " + std::to_string(size));
    }
    tensor.bytes = std::span(bytes_).subspan(data_begin_ + static_cast<std::size_t>(begin), static_cast<std::size_t>(size));
    tensors_.push_back(std::move(tensor));
  }

  /// Tensors lie one after the other, without overlap and without holes; an empty one before what begins where it ends.
  void check_coverage() {
    std::stable_sort(tensors_.begin(), tensors_.end(), [](const Tensor& a, const Tensor& b) {
      return std::pair(a.bytes.data(), a.bytes.size()) < std::pair(b.bytes.data(), b.bytes.size());
    });
    const std::byte* expected = bytes_.data() + data_begin_;
    for (const Tensor& tensor : tensors_) {
      if (tensor.bytes.data() != expected) {
        refuse("tensor '" + tensor.name + "' begins at data byte " +
               std::to_string(tensor.bytes.data() - (bytes_.data() + data_begin_)) + ", expected " +
               std::to_string(expected - (bytes_.data() + data_begin_)));
      }
      expected += tensor.bytes.size();
    }
    if (expected != bytes_.data() + bytes_.size()) {
      refuse(std::to_string(bytes_.data() + bytes_.size() - expected) + " bytes at its end belong to no tensor");
    }
  }

  std::string path_;
  std::vector<std::byte> bytes_;
  std::size_t data_begin_ = 0;
  std::vector<Tensor> tensors_;
  Metadata metadata_;
  std::string unreadable_;  ///< tensors of other types
};

}  // namespace simplx
