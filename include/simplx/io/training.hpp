// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/training.hpp
/// A training on disk: what a trainer needs to go on bit for bit, as two safetensors files of a directory.
///
///     model.safetensors    parameters: <name>
///     state.safetensors    moments: first_moment.<name>, second_moment.<name>; counters in its metadata
///
///     save_training(directory, trainer, {{"block", "sas_p"}}, {{"position", "8"}});
///     const Metadata position = load_training(directory, another);  // takes its next steps as `trainer` would
///
/// Weights stand alone, so that whoever wants no more than the model reads the first file only.

#include <simplx/io/checkpoint.hpp>
#include <simplx/train/trainer_state.hpp>

#include <charconv>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// The moments of these tensors in one buffer: all first ones, then, `size` elements later, all second ones.
inline std::vector<TensorInfo> moments_of(const std::vector<TensorInfo>& tensors, std::size_t size) {
  std::vector<TensorInfo> moments;
  for (const char* prefix : {"first_moment.", "second_moment."}) {
    for (TensorInfo tensor : tensors) {
      if (prefix[0] == 's') tensor.offset += static_cast<Index>(size);
      tensor.name = prefix + tensor.name;
      moments.push_back(std::move(tensor));
    }
  }
  return moments;
}

/// A whole number of a file's metadata.
template <class Number>
Number number_in(const Metadata& metadata, const char* key, const std::filesystem::path& path) {
  const auto found = metadata.find(key);
  const std::string text = found == metadata.end() ? "" : found->second;
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  throw Error("the metadata of " + path.string() + " have no number '" + key + "'", "was it written by save_training?");
}

}  // namespace detail

/// Writes a trainer's state into a directory. `model` is metadata for the weights; `position` holds what else the run
/// has to remember: where its data stand, the best loss so far, ...
///
/// Errors  throws Error if a file cannot be written
/// Cost    a copy of the moments
template <class S>
void save_training(const std::filesystem::path& directory, const std::vector<TensorInfo>& tensors,
                   const TrainerState<S>& state, const Metadata& model = {}, Metadata position = {}) {
  position["optimiser"] = state.optimiser;
  position["steps"] = std::to_string(state.steps);
  position["moment_steps"] = std::to_string(state.moment_steps);
  position["seed"] = std::to_string(state.seed);
  position["rules"] = state.rules;
  std::vector<S> moments(state.first_moments.begin(), state.first_moments.end());
  moments.insert(moments.end(), state.second_moments.begin(), state.second_moments.end());
  save_checkpoint<S>(directory / "model.safetensors", tensors, state.parameters, model);
  save_checkpoint<S>(directory / "state.safetensors", detail::moments_of(tensors, state.first_moments.size()), moments,
                     position);
}

/// The same of a trainer that has no step half accumulated.
template <class Trainer>
void save_training(const std::filesystem::path& directory, Trainer& trainer, const Metadata& model = {},
                   Metadata position = {}) {
  save_training(directory, trainer.tensors().parameters, trainer.state(), model, std::move(position));
}

/// Makes a trainer go on from such a directory; returns the `position` that was saved.
///
/// Errors  throws Error if a file is damaged, of another model, or of a trainer with another seed, clip or groups, of
///         which early files tell the seed alone; then nothing has changed
/// Cost    a copy of parameters and moments
template <class Trainer>
Metadata load_training(const std::filesystem::path& directory, Trainer& trainer) {
  const auto& tensors = trainer.tensors().parameters;
  auto state = trainer.state();
  using S = typename decltype(state.parameters)::value_type;
  const std::size_t size = state.parameters.size();
  const std::filesystem::path path = directory / "state.safetensors";
  std::vector<S> parameters(size), moments(2 * size);
  load_checkpoint<S>(directory / "model.safetensors", tensors, parameters);
  Metadata saved = load_checkpoint<S>(path, detail::moments_of(tensors, size), moments);
  if (!saved.count("optimiser")) throw Error("the metadata of " + path.string() + " name no optimiser");
  trainer.restore({.parameters = parameters,
                   .first_moments = std::span(moments).first(size),
                   .second_moments = std::span(moments).last(size),
                   .optimiser = saved["optimiser"],
                   .steps = detail::number_in<long>(saved, "steps", path),
                   .moment_steps = detail::number_in<long>(saved, "moment_steps", path),
                   .seed = detail::number_in<std::uint64_t>(saved, "seed", path),
                   .rules = saved.count("rules") ? saved["rules"] : ""});
  return saved;
}

}  // namespace simplx
