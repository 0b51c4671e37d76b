// SPDX-License-Identifier: MIT
#pragma once

// A small language model in training, whatever its blocks: all that an experiment asks of one.
//
// The library's Trainer is a class for each model. Behind this interface the experiments are compiled once, and each
// model in a source of its own (models/), which puts it on the list below: what is not linked is not on offer.

#include <memory>
#include <simplx/core/parameters.hpp>
#include <simplx/train/adamw.hpp>
#include <simplx/train/batch.hpp>
#include <simplx/train/trainer_options.hpp>
#include <span>

namespace paper {

using simplx::Index;

/// What is known of a model before it is trained.
struct ModelFacts {
  Index vocab, context, width;
  int heads, layers;
  bool masked;             ///< an encoder, which predicts masked tokens
  double flops_per_token;  ///< forward and backward
};

class AnyTrainer {
 public:
  virtual ~AnyTrainer() = default;

  virtual const simplx::TensorList& tensors() const = 0;
  virtual std::span<float> parameters() = 0;
  virtual std::span<float> constants() = 0;

  virtual simplx::StepResult step(const simplx::TokenBatch& batch, const simplx::AdamW& optimiser) = 0;
  virtual double loss(const simplx::TokenBatch& batch) = 0;
  /// In the layout of parameters(); nothing is learned.
  virtual void gradient(const simplx::TokenBatch& batch, std::span<float> gradient) = 0;
};

struct Model {
  std::string name;
  ModelFacts facts;
  std::unique_ptr<AnyTrainer> (*make)(const simplx::TrainerOptions& options);
};

/// The models that are linked.
inline std::vector<Model>& models() {
  static std::vector<Model> list;
  return list;
}
/// Null if it is not linked.
inline const Model* find_model(std::string_view name) {
  const auto found = std::ranges::find(models(), name, &Model::name);
  return found == models().end() ? nullptr : &*found;
}

}  // namespace paper
