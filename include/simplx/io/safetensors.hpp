// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/safetensors.hpp
/// Reading and writing safetensors files: named tensors of the types in io/dtype.hpp, and a map of texts.
///
///     u64 (little endian)   length of the header
///     header                JSON: name -> {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": texts
///     data                  the tensors' bytes, offsets counted from here
///
/// The reader copies no data and trusts nothing: what is not exactly this, without overlap and without holes, is
/// refused with path, byte, tensor and reason.

#include <simplx/io/dtype.hpp>
#include <simplx/io/file.hpp>
#include <simplx/io/mapped_file.hpp>
#include <simplx/io/safetensors_header.hpp>

#include <limits>

namespace simplx::inline SIMPLX_TARGET {

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

namespace detail {

/// The bytes that the shape of a tensor needs, if they can be counted. An extent of 0 needs none whatever the others
/// are, but the product of those must fit as well: it is computed on the way.
inline std::optional<Index> bytes_needed(const Tensor& tensor) {
  Index size = bytes_of(tensor.dtype);
  bool empty = false;
  for (const Index extent : tensor.shape) {
    if (extent < 0 || (extent > 0 && size > std::numeric_limits<Index>::max() / extent)) return {};
    empty = empty || extent == 0;
    size *= std::max<Index>(extent, 1);
  }
  return empty ? 0 : size;
}

inline constexpr std::uint64_t longest_header = 100'000'000;  // as the reference implementation has it

/// Refuses to write what no reader would take.
inline void check_header_length(std::uint64_t length, const std::filesystem::path& path) {
  if (length <= longest_header) return;
  throw Error("cannot write " + path.string() + ": its header would have " + std::to_string(length) +
                  " bytes, and readers take at most " + std::to_string(longest_header),
              "write fewer tensors or less metadata into one file");
}

}  // namespace detail

/// Writes all tensors, those of wider numbers first, so that each is aligned in a file that is mapped; the file appears
/// only when it is complete.
///
/// Errors  throws Error if a name is taken or not UTF-8, a size does not fit its shape, the header is longer than
///         readers take, or the file cannot be written
inline void write_safetensors(const std::filesystem::path& path, std::span<const Tensor> tensors,
                              const Metadata& metadata = {}) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::set<std::string> taken{"__metadata__"};
  std::vector<Tensor> ordered(tensors.begin(), tensors.end());
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const Tensor& a, const Tensor& b) { return bytes_of(a.dtype) > bytes_of(b.dtype); });
  Index offset = 0;
  for (const Tensor& tensor : ordered) {
    if (!taken.insert(tensor.name).second) {
      throw Error("the name of tensor " + tensor.name + " is taken in " + path.string(),
                  "give every tensor its own name");
    }
    const std::optional<Index> size = detail::bytes_needed(tensor);
    if (!size) {
      throw Error("tensor " + tensor.name + " has an impossible shape",
                  "extents are from 0, and their product fits 63 bits");
    }
    if (*size != static_cast<Index>(tensor.bytes.size())) {
      throw Error("tensor " + tensor.name + " has " + std::to_string(tensor.bytes.size()) + " bytes, its shape needs " +
                      std::to_string(*size),
                  "a tensor's bytes are its elements, each of " + std::to_string(bytes_of(tensor.dtype)));
    }
    header[tensor.name] = {{"dtype", name_of(tensor.dtype)}, {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + *size}}};
    offset += *size;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& error) {
    throw Error("cannot write " + path.string() + ": " + error.what(), "names and metadata must be UTF-8");
  }
  text.resize(static_cast<std::size_t>(round_up(static_cast<Index>(text.size()), 8)), ' ');
  const std::uint64_t length = text.size();
  detail::check_header_length(length, path);
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(text);
  for (const Tensor& tensor : ordered) file.write(tensor.bytes);
  file.commit();
}

/// A file that has been checked; the bytes of its tensors are those of the mapped file.
class SafetensorsFile {
 public:
  /// Errors  throws Error with path, byte and reason for anything that is not a well-formed file
  static SafetensorsFile read(const std::filesystem::path& path) {
    MappedFile file(path);
    SafetensorsFile checked(file.bytes(), path.string());
    checked.file_ = std::move(file);
    return checked;
  }
  /// A file that is in memory already; the bytes belong to somebody else. `path` is what refusals call it.
  static SafetensorsFile view(std::span<const std::byte> bytes, const std::string& path) { return {bytes, path}; }

  SafetensorsFile(SafetensorsFile&&) = default;
  SafetensorsFile& operator=(SafetensorsFile&&) = default;

  /// In the order of their bytes.
  const std::vector<Tensor>& tensors() const& { return tensors_; }
  const Metadata& metadata() const& { return metadata_; }
  const std::vector<Tensor>& tensors() && = delete;  // their bytes would be gone with the file
  Metadata metadata() && { return std::move(metadata_); }
  const Tensor* find(std::string_view name) const {
    const auto found = std::find_if(tensors_.begin(), tensors_.end(), [&](const Tensor& t) { return t.name == name; });
    return found == tensors_.end() ? nullptr : &*found;
  }

 private:
  SafetensorsFile(std::span<const std::byte> bytes, const std::string& path) {
    const auto refuse = [&](std::uint64_t at, const std::string& reason) {
      detail::refuse_safetensors(path, at, reason);
    };
    std::uint64_t length = 0;
    if (bytes.size() < sizeof length) refuse(bytes.size(), "the file ends, too short for a header's length");
    std::memcpy(&length, bytes.data(), sizeof length);
    if (length > detail::longest_header || length > bytes.size() - sizeof length) {
      refuse(0, "the header's length is " + std::to_string(length) + ", but the file has " +
                    std::to_string(bytes.size()) + " bytes and headers at most " +
                    std::to_string(detail::longest_header));
    }
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof length,
                                static_cast<std::size_t>(length));
    detail::SafetensorsHeader header = detail::read_safetensors_header(text, path, sizeof length);
    const std::span<const std::byte> data = bytes.subspan(sizeof length + text.size());
    metadata_ = std::move(header.metadata);
    check_types(header.entries, path);
    for (const detail::HeaderEntry& entry : header.entries) tensors_.push_back(tensor_of(entry, path, data));
    check_coverage(path, data, sizeof length + length);
  }

  /// Types that cannot be read are told at once, but no more of them than can be read over.
  static void check_types(const std::vector<detail::HeaderEntry>& entries, const std::string& path) {
    constexpr std::size_t most = 20;
    std::string unreadable;
    std::size_t count = 0;
    std::uint64_t at = 0;
    for (const detail::HeaderEntry& entry : entries) {
      if (dtype_named(entry.dtype)) continue;
      if (unreadable.empty()) at = entry.at;
      if (++count > most) continue;
      unreadable += (unreadable.empty() ? "tensor " : "; tensor ") + detail::shown(entry.name) + ": its dtype is " +
                    detail::shown(entry.dtype);
    }
    if (unreadable.empty()) return;
    if (count > most) unreadable += "; and " + std::to_string(count - most) + " more";
    std::string readable;
    for (const detail::DtypeInfo& type : detail::dtypes) readable.append(" ").append(type.name);
    detail::refuse_safetensors(path, at, unreadable + "; what can be read is" + readable);
  }

  static Tensor tensor_of(const detail::HeaderEntry& entry, const std::string& path, std::span<const std::byte> data) {
    const auto bad = [&](const std::string& reason) {
      detail::refuse_safetensors(path, entry.at, "tensor " + detail::shown(entry.name) + ": " + reason);
    };
    Tensor tensor{.name = entry.name, .dtype = *dtype_named(entry.dtype), .shape = {}, .bytes = {}};
    for (const std::uint64_t extent : entry.shape) {
      if (!std::in_range<Index>(extent)) bad("its shape holds " + std::to_string(extent));
      tensor.shape.push_back(static_cast<Index>(extent));
    }
    const std::optional<Index> needed = detail::bytes_needed(tensor);
    if (!needed) bad("its shape needs more bytes than can be counted");
    const std::uint64_t begin = entry.offsets[0], end = entry.offsets[1];
    if (begin > end || end > data.size()) {
      bad("its data_offsets [" + std::to_string(begin) + ", " + std::to_string(end) + "] are outside of the data, " +
          std::to_string(data.size()) + " bytes");
    }
    if (end - begin != static_cast<std::uint64_t>(*needed)) {
      bad("its data_offsets span " + std::to_string(end - begin) + " bytes, its shape needs " +
          std::to_string(*needed));
    }
    tensor.bytes = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(*needed));
    return tensor;
  }

  /// Sorts tensors by their bytes. They lie one after the other; an empty one stands before what begins where it ends.
  void check_coverage(const std::string& path, std::span<const std::byte> data, std::uint64_t data_begin) {
    std::stable_sort(tensors_.begin(), tensors_.end(), [](const Tensor& a, const Tensor& b) {
      return std::pair(a.bytes.data(), a.bytes.size()) < std::pair(b.bytes.data(), b.bytes.size());
    });
    std::size_t covered = 0;
    for (const Tensor& tensor : tensors_) {
      const auto begin = static_cast<std::size_t>(tensor.bytes.data() - data.data());
      if (begin != covered) {
        detail::refuse_safetensors(path, data_begin + begin,
                                   "tensor " + detail::shown(tensor.name) + " begins at byte " + std::to_string(begin) +
                                       " of the data, but the tensors before it " +
                                       (begin < covered ? "reach to byte " : "end at byte ") + std::to_string(covered));
      }
      covered += tensor.bytes.size();
    }
    if (covered != data.size()) {
      detail::refuse_safetensors(path, data_begin + covered,
                                 "the last " + std::to_string(data.size() - covered) + " bytes belong to no tensor");
    }
  }

  MappedFile file_;
  std::vector<Tensor> tensors_;
  Metadata metadata_;
};

}  // namespace simplx
