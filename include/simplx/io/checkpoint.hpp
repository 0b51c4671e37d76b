// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/checkpoint.hpp
/// Parameters of a model as a safetensors file, under their names, shapes as people write them: (), (n), (r, c).

#include <simplx/core/parameters.hpp>
#include <simplx/io/safetensors.hpp>

#include <type_traits>

namespace simplx::inline SIMPLX_TARGET {

/// The shape that a checkpoint shows.
inline std::vector<Index> checkpoint_shape(const TensorInfo& tensor) {
  if (tensor.rank == 0) return {};
  if (tensor.rank == 1) return {tensor.shape.cols};
  return {tensor.shape.rows, tensor.shape.cols};
}

/// Writes the tensors of a flat buffer.
template <class S>
void save_checkpoint(const std::filesystem::path& path, const std::vector<TensorInfo>& tensors,
                     std::span<const S> buffer, const Metadata& metadata = {}) {
  std::vector<Tensor> entries;
  for (const TensorInfo& tensor : tensors) {
    const auto values = buffer.subspan(static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.size()));
    entries.push_back({tensor.name, std::is_same_v<S, double> ? Dtype::f64 : Dtype::f32, checkpoint_shape(tensor),
                       std::as_bytes(values)});
  }
  write_safetensors(path, entries, metadata);
}

/// Reads the tensors of a flat buffer; F32 and F64 are converted.
///
/// Errors  throws Error that lists every missing, unexpected or mis-shaped tensor at once; then nothing has changed
template <class S>
Metadata load_checkpoint(const std::filesystem::path& path, const std::vector<TensorInfo>& tensors,
                         std::span<S> buffer) {
  const SafetensorsFile file = SafetensorsFile::read(path);
  const auto spelt = [](const std::vector<Index>& shape) {
    std::string text;
    for (const Index extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
    return "[" + text + "]";
  };
  std::string faults;
  std::set<std::string> known;
  for (const TensorInfo& tensor : tensors) {
    known.insert(tensor.name);
    const Tensor* found = file.find(tensor.name);
    if (!found) {
      faults += "\n  missing: " + tensor.name;
    } else if (found->shape != checkpoint_shape(tensor) || found->dtype == Dtype::i32) {
      faults += "\n  " + tensor.name + " is " + name_of(found->dtype) + " " + spelt(found->shape) +
                ", the model needs floating point " + spelt(checkpoint_shape(tensor));
    }
  }
  for (const Tensor& tensor : file.tensors()) {
    if (!known.count(tensor.name)) faults += "\n  unexpected: " + tensor.name;
  }
  if (!faults.empty()) {
    throw Error("the checkpoint " + path.string() + " is not of this model:" + faults,
                "was it written for another block or other sizes?");
  }
  for (const TensorInfo& tensor : tensors) {
    const Tensor& found = *file.find(tensor.name);
    for (Index i = 0; i < tensor.size(); ++i) {
      double wide;
      float narrow;
      if (found.dtype == Dtype::f64) {
        std::memcpy(&wide, found.bytes.data() + i * 8, 8);
      } else {
        std::memcpy(&narrow, found.bytes.data() + i * 4, 4);
        wide = static_cast<double>(narrow);
      }
      buffer[static_cast<std::size_t>(tensor.offset + i)] = static_cast<S>(wide);
    }
  }
  return file.metadata();
}

}  // namespace simplx
