// SPDX-License-Identifier: MIT
#pragma once

// The models, trained by the library's Trainer. Each is one source:
//
//     constexpr simplx::Decoder model = paper::decoder(simplx::sas);
//     const paper::Offer<model> offer{"sas"};

#include <simplx/models/decoder.hpp>
#include <simplx/models/encoder.hpp>
#include <simplx/models/languini.hpp>
#include <simplx/train/trainer.hpp>

#include "any_trainer.hpp"

namespace paper {

inline constexpr Index width = 64, context = 64;
inline constexpr int heads = 4, layers = 6;

/// The decoders of "Simplifying Transformer Blocks" in miniature, with bytes for tokens.
constexpr simplx::Decoder decoder(const simplx::BlockConfig& block, int depth = layers) {
  return {.block = block,
          .width = width,
          .heads = heads,
          .layers = depth,
          .context = context,
          .positions = simplx::Positions::learned};
}

/// Its encoders: byte 256 is the mask.
constexpr simplx::Encoder encoder(const simplx::BlockConfig& block) {
  return {.block = block, .vocab = 257, .width = width, .heads = heads, .layers = layers, .context = context};
}

/// The decoders of "NormFormer": sinusoids, embeddings times sqrt(d).
constexpr simplx::Decoder norm_former_decoder(const simplx::BlockConfig& block) {
  return {.block = block,
          .width = width,
          .heads = heads,
          .layers = layers,
          .context = context,
          .positions = simplx::Positions::sinusoidal,
          .scaled_embedding = true};
}

/// The decoders with ALiBi of its App. C: longer sequences.
constexpr simplx::Decoder languini(const simplx::BlockConfig& block) {
  simplx::Decoder model = simplx::languini(block);
  model.vocab = 256, model.width = width, model.heads = heads, model.hidden = 4 * width;
  model.layers = layers, model.context = 4 * context;
  return model;
}

template <auto const& model>
class TrainerOf final : public AnyTrainer {
 public:
  explicit TrainerOf(const simplx::TrainerOptions& options) : trainer_(options) {}

  const simplx::TensorList& tensors() const override { return trainer_.tensors(); }
  std::span<float> parameters() override { return trainer_.parameters(); }
  std::span<float> constants() override { return trainer_.constants(); }

  simplx::StepResult step(const simplx::TokenBatch& batch, const simplx::AdamW& optimiser) override {
    return trainer_.step(batch, optimiser);
  }
  double loss(const simplx::TokenBatch& batch) override { return trainer_.loss(batch); }
  void gradient(const simplx::TokenBatch& batch, std::span<float> gradient) override {
    trainer_.loss_and_gradient(batch, gradient);
  }

 private:
  simplx::Trainer<model> trainer_;
};

/// Puts a model on the list.
template <auto const& model>
struct Offer {
  explicit Offer(const char* name) {
    const ModelFacts facts{
        model.vocab,
        model.context,
        model.width,
        model.heads,
        model.layers,
        std::is_same_v<std::remove_cvref_t<decltype(model)>, simplx::Encoder>,
        3 * simplx::causal_flops<model>(simplx::tokens{model.context}) / static_cast<double>(model.context)};
    models().push_back({name, facts, [](const simplx::TrainerOptions& options) -> std::unique_ptr<AnyTrainer> {
                          return std::make_unique<TrainerOf<model>>(options);
                        }});
  }
};

}  // namespace paper
