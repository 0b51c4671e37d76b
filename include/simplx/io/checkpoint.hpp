// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/checkpoint.hpp
/// Parameters of a model as a safetensors file, under their names, shapes as people write them: (), (n), (r, c); and
/// a training as two of them:
///
///     model.safetensors    parameters: <name>
///     state.safetensors    moments: first_moment.<name>, second_moment.<name>; counters in its metadata
///
/// Weights stand alone, so that whoever wants no more than the model reads the first file only.

#include <simplx/core/parameters.hpp>
#include <simplx/io/safetensors.hpp>
#include <simplx/train/trainer_state.hpp>

#include <charconv>
#include <type_traits>

namespace simplx::inline SIMPLX_TARGET {

/// The shape that a checkpoint shows.
inline std::vector<Index> checkpoint_shape(const TensorInfo& tensor) {
  if (tensor.rank == 0) return {};
  if (tensor.rank == 1) return {tensor.shape.cols};
  return {tensor.shape.rows, tensor.shape.cols};
}

namespace detail {

/// A flat buffer in the layout of some tensors, in whose file a prefix stands before their names.
template <class S>
struct PrefixedBuffer {
  std::string prefix;
  std::span<S> values;
};

template <class S>
using PrefixedBuffers = std::vector<PrefixedBuffer<S>>;

template <class S>
void write_buffers(const std::filesystem::path& path, const std::vector<TensorInfo>& tensors,
                   const PrefixedBuffers<const S>& buffers, const Metadata& metadata) {
  std::vector<Tensor> entries;
  for (const auto& [prefix, buffer] : buffers) {
    for (const TensorInfo& tensor : tensors) {
      const auto values = buffer.subspan(static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.size()));
      entries.push_back({prefix + tensor.name, std::is_same_v<S, double> ? Dtype::f64 : Dtype::f32,
                         checkpoint_shape(tensor), std::as_bytes(values)});
    }
  }
  write_safetensors(path, entries, metadata);
}

/// Errors  throws Error that lists every missing, unexpected or mis-shaped tensor of the file at once
template <class S>
void check_buffers(const SafetensorsFile& file, const std::filesystem::path& path,
                   const std::vector<TensorInfo>& tensors, const PrefixedBuffers<S>& buffers) {
  const auto spelt = [](const std::vector<Index>& shape) {
    std::string text;
    for (const Index extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
    return "[" + text + "]";
  };
  std::string faults;
  std::set<std::string> known;
  for (const PrefixedBuffer<S>& buffer : buffers) {
    for (const TensorInfo& tensor : tensors) {
      const std::string name = buffer.prefix + tensor.name;
      known.insert(name);
      const Tensor* found = file.find(name);
      if (!found) {
        faults += "\n  missing: " + name;
      } else if (found->shape != checkpoint_shape(tensor) || found->dtype == Dtype::i32) {
        faults += "\n  " + name + " is " + name_of(found->dtype) + " " + spelt(found->shape) +
                  ", the model needs floating point " + spelt(checkpoint_shape(tensor));
      }
    }
  }
  for (const Tensor& tensor : file.tensors()) {
    if (!known.count(tensor.name)) faults += "\n  unexpected: " + tensor.name;
  }
  if (faults.empty()) return;
  throw Error("the checkpoint " + path.string() + " is not of this model:" + faults,
              "was it written for another block or other sizes?");
}

/// Fills the buffers from a file that check_buffers let pass.
template <class S>
void read_buffers(const SafetensorsFile& file, const std::vector<TensorInfo>& tensors,
                  const PrefixedBuffers<S>& buffers) {
  for (const auto& [prefix, buffer] : buffers) {
    for (const TensorInfo& tensor : tensors) {
      const Tensor& found = *file.find(prefix + tensor.name);
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
  }
}

/// A number of a file's metadata, written by std::to_string.
template <class Number>
Number number_in(const Metadata& metadata, const char* key, const std::filesystem::path& path) {
  const auto found = metadata.find(key);
  Number number{};
  if (found != metadata.end()) {
    const char* end = found->second.data() + found->second.size();
    if (const auto read = std::from_chars(found->second.data(), end, number); read.ec == std::errc() && read.ptr == end) {
      return number;
    }
  }
  throw Error("the metadata of " + path.string() + " have no number '" + key + "'", "was it written by save_training?");
}

}  // namespace detail

/// Writes the tensors of a flat buffer.
template <class S>
void save_checkpoint(const std::filesystem::path& path, const std::vector<TensorInfo>& tensors,
                     std::span<const S> buffer, const Metadata& metadata = {}) {
  detail::write_buffers<S>(path, tensors, {{"", buffer}}, metadata);
}

/// Reads the tensors of a flat buffer; F32 and F64 are converted.
///
/// Errors  throws Error that lists every missing, unexpected or mis-shaped tensor at once; then nothing has changed
template <class S>
Metadata load_checkpoint(const std::filesystem::path& path, const std::vector<TensorInfo>& tensors,
                         std::span<S> buffer) {
  const SafetensorsFile file = SafetensorsFile::read(path);
  detail::check_buffers<S>(file, path, tensors, {{"", buffer}});
  detail::read_buffers<S>(file, tensors, {{"", buffer}});
  return file.metadata();
}

/// Writes a trainer's state into a directory. `position` holds what else the run has to remember: where its data
/// stands, the best loss so far, ...
template <class S>
void save_training(const std::filesystem::path& directory, const std::vector<TensorInfo>& tensors,
                   const TrainerState<S>& state, const Metadata& model = {}, Metadata position = {}) {
  position["optimiser"] = state.optimiser;
  position["steps"] = std::to_string(state.steps);
  position["moment_steps"] = std::to_string(state.moment_steps);
  position["seed"] = std::to_string(state.seed);
  position["slots"] = std::to_string(state.slots);
  save_checkpoint<S>(directory / "model.safetensors", tensors, state.parameters, model);
  detail::write_buffers<S>(directory / "state.safetensors", tensors,
                           {{"first_moment.", state.first_moments}, {"second_moment.", state.second_moments}}, position);
}

/// Makes a trainer go on from such a directory; returns the `position` that was saved.
///
/// Errors  throws Error if a file is damaged, of another model, or the training differs in what its bits depend on;
///         then nothing has changed
template <class Trainer>
Metadata load_training(const std::filesystem::path& directory, Trainer& trainer) {
  const auto& tensors = trainer.tensors().parameters;
  auto state = trainer.state();
  using S = typename decltype(state.parameters)::value_type;
  const std::filesystem::path model_path = directory / "model.safetensors", path = directory / "state.safetensors";
  const detail::PrefixedBuffers<S> parameters{{"", state.parameters}};
  const detail::PrefixedBuffers<S> moments{{"first_moment.", state.first_moments}, {"second_moment.", state.second_moments}};
  const SafetensorsFile model = SafetensorsFile::read(model_path), file = SafetensorsFile::read(path);
  detail::check_buffers(model, model_path, tensors, parameters);
  detail::check_buffers(file, path, tensors, moments);
  const Metadata& saved = file.metadata();
  const auto optimiser = saved.find("optimiser");
  if (optimiser == saved.end()) throw Error("the metadata of " + path.string() + " name no optimiser");
  state.optimiser = optimiser->second;
  state.steps = detail::number_in<long>(saved, "steps", path);
  state.moment_steps = detail::number_in<long>(saved, "moment_steps", path);
  state.seed = detail::number_in<std::uint64_t>(saved, "seed", path);
  state.slots = detail::number_in<int>(saved, "slots", path);
  trainer.restore(state);  // refuses before anything is read
  detail::read_buffers(model, tensors, parameters);
  detail::read_buffers(file, tensors, moments);
  return saved;
}

}  // namespace simplx
