// SPDX-License-Identifier: MIT
#pragma once

// The models: a decoder for each block, trained by the library's Trainer.

#include "any_trainer.hpp"

#include <simplx/models/decoder.hpp>
#include <simplx/train/evaluation.hpp>
#include <simplx/train/trainer.hpp>

namespace train_lm {

using namespace simplx;

#if defined(SIMPLX_BFLOAT16)  // a CMake option
inline constexpr Path path = Path::bfloat16;
#else
inline constexpr Path path = Path::fast;
#endif

template <auto const& block>
inline constexpr Decoder model{
    .block = block, .vocab = SIMPLX_VOCAB, .context = context, .positions = Positions::learned};
/// The same with probes: what training must not pay for is evaluated apart.
template <auto const& block>
inline constexpr Decoder observed_model{
    .block = block, .vocab = SIMPLX_VOCAB, .context = context, .positions = Positions::learned, .observed = true};

template <auto const& block, class Backend>
class TrainerOf final : public AnyTrainer {
 public:
  explicit TrainerOf(const TrainerOptions& options) : trainer_(options) {}

  ModelFacts facts() const override {
    constexpr const Decoder& m = model<block>;
    return {simplx::parameters<model<block>>, m.vocab, m.width, m.heads, m.layers,
            3 * causal_flops<model<block>>(tokens{context}) / context, arena_bytes<model<block>>(tokens{context})};
  }
  OpTable layer() const override { return ops_of_layer(model<block>, 1); }
  const TrainerOptions& options() const override { return trainer_.options(); }
  const TensorList& tensors() const override { return trainer_.tensors(); }
  std::span<float> parameters() override { return trainer_.parameters(); }
  std::span<float> constants() override { return trainer_.constants(); }
  Index bytes() const override { return trainer_.bytes(); }

  StepResult step(const TokenBatch& batch, const AdamW& optimiser) override { return trainer_.step(batch, optimiser); }
  double loss(const TokenBatch& batch) override { return trainer_.loss(batch); }
  std::span<const float> logits(std::span<const std::int32_t> tokens) override { return trainer_.logits(tokens); }

  std::vector<std::string> refusals() const override {
    std::vector<std::string> lines;
    if constexpr (requires { trainer_.not_fused(); }) {
      lines = trainer_.not_fused();
      if (!trainer_.not_recorded().empty()) lines.push_back(trainer_.not_recorded());
    }
    return lines;
  }

  TrainerState<float> state() override { return trainer_.state(); }
  void restore(const TrainerState<float>& state) override { trainer_.restore(state); }

  std::vector<double> gradient_norms(const TokenBatch& batch) override {
    Evaluation<observed_model<block>, Backend> run(simplx::tokens{context});
    std::ranges::copy(trainer_.parameters(), run.parameters().begin());
    std::ranges::copy(trainer_.constants(), run.constants().begin());
    std::vector<double> squared(static_cast<std::size_t>(model<block>.layers));
    for (Index b = 0; b < batch.sequences(); ++b) {
      const Index begin = batch.offsets[b];
      std::copy_n(batch.tokens.begin() + begin, context, run.indices("tokens").begin());
      std::copy_n(batch.labels.begin() + begin, context, run.indices("labels").begin());
      run.forward();
      std::ranges::fill(run.output_gradient(), 1.f);
      run.backward();
      std::size_t layer = 0;
      run.each_probe([&](const std::string&, const Shape& shape, const float*, const float* gradient) {
        for (Index i = 0; i < context * shape.cols; ++i) {
          squared[layer] += static_cast<double>(gradient[i]) * static_cast<double>(gradient[i]);
        }
        ++layer;
      });
    }
    for (double& sum : squared) sum = std::sqrt(sum / static_cast<double>(batch.tokens.size()));
    return squared;
  }

 private:
  Trainer<model<block>, Backend> trainer_;
};

template <auto const& block>
std::unique_ptr<AnyTrainer> make_trainer(Device device, const TrainerOptions& options) {
  if (device == Device::cpu) return std::make_unique<TrainerOf<block, Cpu<float, path>>>(options);
#if defined(SIMPLX_CUDA)  // a CMake option
  return make_cuda_trainer<block>(device, options);
#else
  devices::throw_without_cuda();
#endif
}

}  // namespace train_lm
