// SPDX-License-Identifier: MIT
#pragma once

// A language model in training, whatever its block: all that the program asks of one.
//
// The library's Trainer is a class for each model. Behind this interface the program is compiled once, and each model
// in a source of its own (blocks/), side by side.

#include "../device.hpp"

#include <simplx/blocks/tokens.hpp>
#include <simplx/core/parameters.hpp>
#include <simplx/report/op_table.hpp>
#include <simplx/train/adamw.hpp>
#include <simplx/train/batch.hpp>
#include <simplx/train/trainer_options.hpp>
#include <simplx/train/trainer_state.hpp>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace train_lm {

inline constexpr simplx::Index context = 128;  ///< tokens that the models see

/// Tokens that the models know: SIMPLX_VOCAB, a CMake variable. No source outside of blocks/ depends on it.
simplx::Index model_vocab();

/// What is known of a model before it is trained.
struct ModelFacts {
  simplx::Index parameters, vocab, width, heads, layers;
  double flops_per_token;     ///< forward and backward
  simplx::Index arena_bytes;  ///< of one sequence
};

class AnyTrainer {
 public:
  virtual ~AnyTrainer() = default;

  virtual ModelFacts facts() const = 0;
  /// The ops of a later layer, as its picture shows them.
  virtual simplx::OpTable layer() const = 0;
  virtual const simplx::TrainerOptions& options() const = 0;
  virtual const simplx::TensorList& tensors() const = 0;
  virtual std::span<float> parameters() = 0;
  virtual std::span<float> constants() = 0;
  virtual simplx::Index bytes() const = 0;

  virtual simplx::StepResult step(const simplx::TokenBatch& batch, const simplx::AdamW& optimiser) = 0;
  virtual double loss(const simplx::TokenBatch& batch) = 0;
  virtual std::span<const float> logits(std::span<const std::int32_t> tokens) = 0;
  simplx::Index vocab() const { return facts().vocab; }

  /// What a GPU refused and was done otherwise, slower but right: a line each.
  virtual std::vector<std::string> refusals() const = 0;

  virtual simplx::TrainerState<float> state() = 0;
  virtual void restore(const simplx::TrainerState<float>& state) = 0;

  /// How strong the gradient is that arrives at the input of each block: the L2 norm of a token's row of
  /// d(sum of the losses)/dx, root mean square over the tokens.
  virtual std::vector<double> gradient_norms(const simplx::TokenBatch& batch) = 0;
};

using devices::Device;

/// A decoder of SIMPLX_VOCAB tokens, 6 layers, width 128 and 4 heads around a block; defined for the blocks of
/// blocks/*.cpp.
///
/// Errors  throws Error for a GPU if the program was built without CUDA, or if there is none
template <auto const& block>
std::unique_ptr<AnyTrainer> make_trainer(Device device, const simplx::TrainerOptions& options);
/// The same on a GPU; defined in blocks/*.cu, which are part of programs built with CUDA.
template <auto const& block>
std::unique_ptr<AnyTrainer> make_cuda_trainer(Device device, const simplx::TrainerOptions& options);

}  // namespace train_lm
