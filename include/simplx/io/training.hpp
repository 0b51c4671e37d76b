// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/io/training.hpp
/// A training on disk: what a trainer needs to go on bit for bit, as two safetensors files of a directory.
///
///     model.safetensors    parameters, and what was drawn beside them: <name>
///     state.safetensors    moments: first_moment.<name>, second_moment.<name>; the other constants, which may have
///                          been set: constant.<name>; counters in its metadata
///
///     save_training(directory, trainer, {{"block", "sas_p"}}, {{"position", "8"}});
///     const Metadata position = load_training(directory, another);  // takes its next steps as `trainer` would
///
/// Weights stand alone, so that whoever wants no more than the model reads the first file only. Both name their step
/// and their save: files of two, which a save into the same directory leaves if it is killed between them, are refused.
/// Checkpoints (io/checkpoints.hpp) writes each training into a directory of its own, and keeps the one before until it
/// is whole.

#include <simplx/core/random.hpp>
#include <simplx/cpu/lane_bits.hpp>
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

/// Constants that were not drawn, under the names that they have there.
inline std::vector<TensorInfo> set_constants(std::vector<TensorInfo> constants) {
  std::erase_if(constants, [](const TensorInfo& tensor) { return tensor.init.is_drawn(); });
  for (TensorInfo& tensor : constants) tensor.name = "constant." + tensor.name;
  return constants;
}

/// What save_training says in the metadata of the second file; of the first one it says the first two.
inline constexpr const char* own_metadata[]{"steps", "save", "optimiser", "moment_steps", "seed", "rules"};

inline void check_metadata(const Metadata& given, std::size_t own) {
  for (std::size_t i = 0; i < own; ++i) {
    if (!given.count(own_metadata[i])) continue;
    throw Error("save_training writes the metadata '" + std::string(own_metadata[i]) + "' itself",
                "choose another name for yours");
  }
}

/// A number that other values would hardly have.
template <class S>
std::uint64_t digest(std::uint64_t key, std::span<S> values) {
  for (const S value : values) key = bits(key, std::bit_cast<Bits<S>>(value));
  return key;
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

/// Writes a trainer's state into a directory, which is made if there is none. `model` is metadata for the weights;
/// `position` holds what else the run has to remember: where its data stand, the best loss so far, ...
///
/// Errors  throws Error if a file cannot be written, or metadata have a name that it needs itself: steps, save, and in
///         `position` optimiser, moment_steps, seed, rules
/// Cost    a copy of the moments
template <class S>
void save_training(const std::filesystem::path& directory, const TensorList& tensors, const TrainerState<S>& state,
                   Metadata model = {}, Metadata position = {}) {
  detail::check_metadata(model, 2);
  detail::check_metadata(position, std::size(detail::own_metadata));
  model["steps"] = position["steps"] = std::to_string(state.count.steps);
  model["save"] = position["save"] =
      std::to_string(detail::digest(detail::digest(0, state.parameters), state.first_moments));
  position["optimiser"] = state.count.optimiser;
  position["moment_steps"] = std::to_string(state.count.moment_steps);
  position["seed"] = std::to_string(state.seed);
  position["rules"] = state.rules;
  std::vector<S> moments(state.first_moments.begin(), state.first_moments.end());
  moments.insert(moments.end(), state.second_moments.begin(), state.second_moments.end());
  detail::Held<S> weights = detail::held(tensors.parameters, state.parameters);
  detail::Held<S> others = detail::held(detail::moments_of(tensors.parameters, state.first_moments.size()),
                                        std::span(moments));
  if (!state.constants.empty()) {
    weights.add(detail::drawn(tensors.constants), state.constants);
    others.add(detail::set_constants(tensors.constants), state.constants);
  }
  std::error_code ignored;  // writing tells what is wrong
  std::filesystem::create_directories(directory, ignored);
  detail::write_checkpoint(directory / "model.safetensors", weights, model, dtype_of<S>);
  detail::write_checkpoint(directory / "state.safetensors", others, position, dtype_of<S>);
}

/// The same of a trainer that has no step half accumulated.
template <class Trainer>
void save_training(const std::filesystem::path& directory, Trainer& trainer, const Metadata& model = {},
                   Metadata position = {}) {
  save_training(directory, trainer.tensors(), trainer.state(), model, std::move(position));
}

/// Makes a trainer go on from such a directory; returns the `position` that was saved.
///
/// Errors  throws Error if a file is damaged, of another model, type of numbers or save than the other, or of a trainer
///         with another seed, clip or groups, of which early files tell the seed alone; then nothing has changed
/// Cost    a copy of parameters, constants and moments
template <class Trainer>
Metadata load_training(const std::filesystem::path& directory, Trainer& trainer) {
  const TensorList& tensors = trainer.tensors();
  auto state = trainer.state();
  using S = typename decltype(state.parameters)::value_type;
  const std::size_t size = state.parameters.size();
  std::vector<S> parameters(size), moments(2 * size), constants(state.constants.begin(), state.constants.end());
  detail::Held<S> weights = detail::held(tensors.parameters, std::span(parameters));
  detail::Held<S> others = detail::held(detail::moments_of(tensors.parameters, size), std::span(moments));
  const std::vector<TensorInfo> drawn = detail::drawn(tensors.constants);
  weights.add(drawn, std::span(constants));
  others.add(detail::set_constants(tensors.constants), std::span(constants));
  const std::filesystem::path of_model = directory / "model.safetensors", path = directory / "state.safetensors";
  const SafetensorsFile model = SafetensorsFile::read(of_model), rest = SafetensorsFile::read(path);
  for (const auto& [file, of] : {std::pair(&model, &of_model), std::pair(&rest, &path)}) {
    for (const Tensor& tensor : file->tensors()) {
      if (tensor.dtype == dtype_of<S>) continue;
      throw Error(of->string() + " holds numbers of " + std::string(name_of(tensor.dtype)) + ", the trainer of " +
                      std::string(name_of(dtype_of<S>)) + ", with which it would not go on bit for bit",
                  "load_checkpoint takes the weights alone");
    }
  }
  // Early files have no constants, which are then the trainer's own: drawn from the same seed.
  detail::read_checkpoint(model, of_model, weights, {.missing = names_of(drawn)});
  detail::read_checkpoint(rest, path, others, {.missing = {"constant.*"}});
  Metadata saved = rest.metadata();
  if (!saved.count("optimiser")) throw Error("the metadata of " + path.string() + " name no optimiser");
  const auto steps = detail::number_in<long>(saved, "steps", path);
  if (model.metadata().count("steps") && detail::number_in<long>(model.metadata(), "steps", of_model) != steps) {
    throw Error(of_model.string() + " is of step " + model.metadata().at("steps") + ", but " + path.string() +
                    " of step " + saved["steps"],
                "a save was stopped between its two files: go on from another one; Checkpoints keeps the one before");
  }
  if (model.metadata().count("save") && saved.count("save") && model.metadata().at("save") != saved["save"]) {
    throw Error(of_model.string() + " and " + path.string() + " are of two saves", "take both files from one");
  }
  trainer.restore({.parameters = parameters,
                   .first_moments = std::span(moments).first(size),
                   .second_moments = std::span(moments).last(size),
                   .count = {.optimiser = saved["optimiser"],
                             .steps = steps,
                             .moment_steps = detail::number_in<long>(saved, "moment_steps", path)},
                   .seed = detail::number_in<std::uint64_t>(saved, "seed", path),
                   .rules = saved.count("rules") ? saved["rules"] : "",
                   .constants = constants});
  for (const char* own : detail::own_metadata) saved.erase(own);
  return saved;
}

}  // namespace simplx
