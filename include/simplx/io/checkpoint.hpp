// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/checkpoint.hpp
/// Parameters of a model as a safetensors file, under their names, shapes as people write them: (), (n), (r, c); and
/// beside them what is not trained but drawn from the seed, such as the bases of Eq. (6). Other constants (rates,
/// epsilons, slopes) are the model's own.
///
///     save_checkpoint("model.safetensors", trainer);
///     load_checkpoint("model.safetensors", net);  // an Inference of the same model

#include <simplx/core/parameters.hpp>
#include <simplx/io/safetensors.hpp>
#include <simplx/io/text_table.hpp>
#include <simplx/train/glob.hpp>

#include <array>
#include <cmath>
#include <type_traits>
#include <utility>

namespace simplx::inline SIMPLX_TARGET {

/// The shape that a checkpoint shows.
inline std::vector<Index> checkpoint_shape(const TensorInfo& tensor) {
  if (tensor.rank == 0) return {};
  if (tensor.rank == 1) return {tensor.shape.cols};
  return {tensor.shape.rows, tensor.shape.cols};
}

namespace detail {

template <class Net>
using ParameterOf = std::remove_cvref_t<decltype(std::declval<Net&>().parameters()[0])>;

/// Refuses a buffer that is shorter than its tensors, gaps between them included.
inline void check_buffer(const std::vector<TensorInfo>& tensors, std::size_t elements) {
  Index end = 0;
  for (const TensorInfo& tensor : tensors) end = std::max(end, tensor.offset + tensor.size());
  if (static_cast<std::size_t>(end) <= elements) return;
  throw Error("a buffer of " + std::to_string(elements) + " elements for tensors that end at " + std::to_string(end),
              "make it as long as parameters() of the model: tensors begin at multiples of a vector");
}

/// Tensors, and where the values of each are.
template <class S>
struct Held {
  std::vector<TensorInfo> tensors;
  std::vector<std::span<S>> values;

  /// Adds tensors of a flat buffer.
  void add(const std::vector<TensorInfo>& more, std::span<S> buffer) {
    check_buffer(more, buffer.size());
    for (const TensorInfo& tensor : more) {
      tensors.push_back(tensor);
      const auto offset = static_cast<std::size_t>(tensor.offset), size = static_cast<std::size_t>(tensor.size());
      values.push_back(buffer.subspan(offset, size));
    }
  }
};
template <class S>
Held<S> held(const std::vector<TensorInfo>& tensors, std::span<S> buffer) {
  Held<S> all;
  all.add(tensors, buffer);
  return all;
}
inline std::vector<TensorInfo> drawn(std::vector<TensorInfo> constants) {
  std::erase_if(constants, [](const TensorInfo& tensor) { return !tensor.init.is_drawn(); });
  return constants;
}
/// What a checkpoint has of a network.
template <class Net, class S = ParameterOf<Net>>
Held<S> held_by(Net& net) {
  Held<S> all = held<S>(net.tensors().parameters, net.parameters());
  all.add(drawn(net.tensors().constants), net.constants());
  return all;
}
/// The same to be read, of a network that can be: one that is asked for its parameters to change them prepares them
/// anew, which evaluations on other threads would see.
template <class Net>
auto read_from(Net& net) {
  if constexpr (requires(const Net& same) { same.parameters(), same.constants(); }) {
    return held_by<const Net, const ParameterOf<Net>>(net);
  } else {
    return held_by(net);
  }
}

template <class S>
void write_checkpoint(const std::filesystem::path& path, const Held<S>& held, const Metadata& metadata, Dtype dtype) {
  const bool as_they_are = dtype == dtype_of<std::remove_const_t<S>>;
  std::vector<Tensor> entries;
  std::vector<std::vector<std::byte>> rounded;  // entries point into them
  for (std::size_t i = 0; i < held.tensors.size(); ++i) {
    const std::span<const std::remove_const_t<S>> values = held.values[i];
    if (!as_they_are) {
      rounded.push_back(bytes_as(dtype, values));
      std::vector<std::remove_const_t<S>> back(values.size());
      read_values(dtype, rounded.back(), std::span(back));
      for (std::size_t k = 0; k < back.size(); ++k) {
        if (std::isfinite(back[k]) || !std::isfinite(values[k])) continue;
        throw Error("'" + held.tensors[i].name + "' has a number " + shortest(static_cast<double>(values[k])) +
                        ", too large for " + std::string(name_of(dtype)),
                    "choose a wider type");
      }
    }
    entries.push_back({held.tensors[i].name, dtype, checkpoint_shape(held.tensors[i]),
                       as_they_are ? std::as_bytes(values) : std::span<const std::byte>(rounded.back())});
  }
  write_safetensors(path, entries, metadata);
}

}  // namespace detail

/// Writes the tensors of a flat buffer, as they are or rounded to another floating-point type.
///
/// Errors  throws Error if the buffer is shorter than its tensors, `dtype` is no floating-point type or has no room for
///         a number, or writing fails
template <class S>
void save_checkpoint(const std::filesystem::path& path, const std::vector<TensorInfo>& tensors,
                     std::span<const S> buffer, const Metadata& metadata = {}, Dtype dtype = dtype_of<S>) {
  detail::write_checkpoint(path, detail::held(tensors, buffer), metadata, dtype);
}
/// The same of a network: a Trainer, an Evaluation, an Inference, anything that has tensors(), parameters() and
/// constants(), of which those that were drawn are written, too.
template <class Net, class S = detail::ParameterOf<Net>>
void save_checkpoint(const std::filesystem::path& path, Net& net, const Metadata& metadata = {},
                     Dtype dtype = dtype_of<S>) {
  detail::write_checkpoint(path, detail::read_from(net), metadata, dtype);
}

/// Where a file and a model may differ, as names or patterns of names; then where they did, as names.
struct CheckpointDifferences {
  std::vector<std::string> missing = {};     ///< tensors of the model that are not in the file: a new head
  std::vector<std::string> unexpected = {};  ///< tensors of the file that are not in the model: the head it had
  std::string prefix = {};  ///< no pattern: of the file's names of what is in the model, "transformer."
};

namespace detail {

/// "F32 [3, 4]"; of very many extents the first.
inline std::string spelt(std::string_view dtype, const std::vector<Index>& shape) {
  constexpr std::size_t most = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, shape.size()); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  if (shape.size() > most) text += ", ... of " + std::to_string(shape.size());
  return std::string(dtype) + " [" + text + "]";
}

inline bool is_among(std::span<const std::string> patterns, std::string_view name) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return matches_glob(pattern, name); });
}

/// A table of everything in which a file differs from a model, a line for each tensor; empty if nothing does that is
/// not expected. Of tensors that are in the file alone, which may have any number of them, the first are listed.
inline std::string checkpoint_faults(const SafetensorsFile& file, const std::vector<TensorInfo>& tensors,
                                     const CheckpointDifferences& expected = {}) {
  std::vector<std::array<std::string, 4>> rows{{"", "tensor", "the file", "the model"}};
  std::set<std::string, std::less<>> known;
  for (const TensorInfo& tensor : tensors) {
    const std::string& name = *known.insert(expected.prefix + tensor.name).first;
    const std::string needed = spelt("float", checkpoint_shape(tensor));
    const Tensor* found = file.find(name);
    if (!found) {
      if (is_among(expected.missing, tensor.name)) continue;
      rows.push_back({"missing", name, "-", needed});
    } else if (!is_floating(found->dtype) || found->shape != checkpoint_shape(tensor)) {
      rows.push_back({is_floating(found->dtype) ? "other shape" : "other type", name,
                      spelt(name_of(found->dtype), found->shape), needed});
    }
  }
  constexpr std::size_t most = 50;
  std::size_t unexpected = 0;
  for (const Tensor& tensor : file.tensors()) {
    if (!known.count(tensor.name) && !is_among(expected.unexpected, tensor.name) && ++unexpected <= most) {
      rows.push_back({"unexpected", shown(tensor.name), spelt(name_of(tensor.dtype), tensor.shape), "-"});
    }
  }
  if (rows.size() == 1) return {};
  std::string table = text_table(rows);
  if (unexpected > most) table += "\n  and " + std::to_string(unexpected - most) + " more that are unexpected";
  return table;
}

/// Refuses numbers of a wider type that have no room in a model's, before any of them is written there.
template <class S>
void check_range(const SafetensorsFile& file, const std::filesystem::path& path, const std::string& name) {
  const Tensor* found = file.find(name);
  if (!found || static_cast<std::size_t>(bytes_of(found->dtype)) <= sizeof(S)) return;
  std::vector<S> values(found->bytes.size() / static_cast<std::size_t>(bytes_of(found->dtype)));
  try {
    read_values(found->dtype, found->bytes, std::span(values));
  } catch (const Error& error) {
    throw Error("'" + name + "' in " + path.string() + ": " + error.what(), "the model needs doubles for such weights");
  }
}

/// Reads what a file and a model share; returns what they do not.
template <class S>
CheckpointDifferences read_checkpoint(const SafetensorsFile& file, const std::filesystem::path& path,
                                      const Held<S>& held, const CheckpointDifferences& expected) {
  if (const std::string faults = checkpoint_faults(file, held.tensors, expected); !faults.empty()) {
    const auto is_moment = [](const auto& tensor) { return tensor.name.starts_with("first_moment."); };
    if (std::ranges::any_of(file.tensors(), is_moment) && std::ranges::none_of(held.tensors, is_moment)) {
      throw Error(path.string() + " holds the moments of a training, not its weights",
                  "they are in model.safetensors beside it");
    }
    throw Error("the checkpoint " + path.string() + " is not of this model:" + faults,
                "was it written for another block or other sizes?");
  }
  for (const TensorInfo& tensor : held.tensors) check_range<S>(file, path, expected.prefix + tensor.name);
  CheckpointDifferences differences{.prefix = expected.prefix};
  std::set<std::string, std::less<>> known;
  for (std::size_t i = 0; i < held.tensors.size(); ++i) {
    const std::string& name = *known.insert(expected.prefix + held.tensors[i].name).first;
    if (const Tensor* found = file.find(name)) {
      read_values(found->dtype, found->bytes, held.values[i]);
    } else {
      differences.missing.push_back(held.tensors[i].name);
    }
  }
  for (const Tensor& tensor : file.tensors()) {
    if (!known.count(tensor.name)) differences.unexpected.push_back(tensor.name);
  }
  return differences;
}

}  // namespace detail

/// Reads the tensors of a flat buffer; any floating-point type is converted.
///
/// Errors  throws Error with a table of the missing, unexpected, mis-shaped or mis-typed tensors, for a number that S
///         has no room for, and for a buffer that is shorter than its tensors; then nothing has changed
template <class S>
Metadata load_checkpoint(const std::filesystem::path& path, const std::vector<TensorInfo>& tensors,
                         std::span<S> buffer) {
  const SafetensorsFile file = SafetensorsFile::read(path);
  detail::read_checkpoint(file, path, detail::held(tensors, buffer), {});
  return file.metadata();
}
/// The same into a network, and what its seed had drawn: the network may have another.
template <class Net, class S = detail::ParameterOf<Net>>
Metadata load_checkpoint(const std::filesystem::path& path, Net& net) {
  const SafetensorsFile file = SafetensorsFile::read(path);
  detail::read_checkpoint(file, path, detail::held_by(net), {});
  return file.metadata();
}

/// load_checkpoint from a checkpoint that has another head, or none: what is `expected` to be missing keeps the values
/// that it has in the buffer, what is expected beside is not read. Returns the names of both. With a prefix a tensor of
/// the model is that of the file with the prefix before its name; names of `missing` are the model's, of `unexpected`
/// the file's.
///
///     Trainer<classifier> trainer{...};  // draws the head
///     const auto found = load_body("bert.safetensors", trainer, {.missing = head_parameters()});
///
/// Errors  as load_checkpoint, for everything that is not expected
template <class S>
CheckpointDifferences load_body(const std::filesystem::path& path, const std::vector<TensorInfo>& tensors,
                                std::span<S> buffer, const CheckpointDifferences& expected) {
  return detail::read_checkpoint(SafetensorsFile::read(path), path, detail::held(tensors, buffer), expected);
}
/// The same into a network.
template <class Net, class S = detail::ParameterOf<Net>>
CheckpointDifferences load_body(const std::filesystem::path& path, Net& net, const CheckpointDifferences& expected) {
  return detail::read_checkpoint(SafetensorsFile::read(path), path, detail::held_by(net), expected);
}

}  // namespace simplx
