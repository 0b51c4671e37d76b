// SPDX-License-Identifier: MIT
#pragma once

// The models: a decoder for each block, evaluated token by token.

#include "writer.hpp"

#include <simplx/generate/generate.hpp>
#include <simplx/generate/stream.hpp>
#include <simplx/models/decoder.hpp>

namespace generate_text {

using namespace simplx;

template <auto const& block>
inline constexpr Decoder model{
    .block = block, .vocab = SIMPLX_VOCAB, .context = 128, .positions = Positions::learned};

template <auto const& block, class Backend>
class WriterOf final : public Writer {
 public:
  static constexpr auto const& logits = logits_of<model<block>>;

  explicit WriterOf(std::uint64_t seed) : net_({.seed = seed}) {}

  Sizes sizes() const override {
    constexpr const Decoder& m = model<block>;
    return {m.vocab, m.width, m.heads, m.layers, m.context, "learned"};
  }
  const TensorList& tensors() const override { return net_.tensors(); }
  std::span<float> parameters() override { return net_.parameters(); }
  std::span<float> constants() override { return net_.constants(); }

  Index write(std::span<const std::int32_t> prompt, long count, std::span<Sampler> draws, bool cached,
              const std::function<bool(Index, std::int32_t)>& emit) override {
    const Index texts = std::ssize(draws);
    if (!cached) {
      Replay<logits, Backend> replay(net_);
      for (Index text = 0; text < texts; ++text) {
        generate(replay, prompt, count, draws[static_cast<std::size_t>(text)],
                 [&](std::int32_t token) { return emit(text, token); });
      }
      return 0;
    }
    Stream<logits, Backend> stream(net_, {.sequences = texts});
    generate(stream, copies_of(prompt, texts), count, draws, emit);
    return stream.cache_bytes();
  }

 private:
  Inference<logits, Backend> net_;
};

template <auto const& block>
std::unique_ptr<Writer> make_writer(Device device, std::uint64_t seed) {
  if (device == Device::cpu) return std::make_unique<WriterOf<block, Cpu<float>>>(seed);
#if defined(SIMPLX_CUDA)  // a CMake option
  return make_cuda_writer<block>(device, seed);
#else
  devices::throw_without_cuda();
#endif
}

}  // namespace generate_text
